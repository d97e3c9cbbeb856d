"""The rules of text normalisation: a pattern and what it is read as. The first that matches at a word's start wins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from voice_agent.tts import lexicon, verbalise
from voice_agent.tts.verbalise import MONTHS, cardinal, decimal, digits, ordinal

Reading = str | None
"""What a match is read as; None: the rule doesn't apply after all."""

Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], Reading]]

_MONTH_NUMBERS = {name.lower(): number for number, name in enumerate(MONTHS, 1)} | lexicon.MONTHS_SHORT
_MONTH = r"(?P<month>" + "|".join(name.title() for name in sorted(_MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
"""Capitals only: "you may 5" and "in the sun." are something else."""
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_HALF = r"(?P<half>[ap])\.?\s?m\b\.?"
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_TOP_LEVEL = r"(?:com|org|net|io|co|uk|edu|gov|info|de|eu|us|app|dev|ai|me|tv|fr|es|it|nl|ca|au|restaurant|cafe|menu)"
_DOMAIN = rf"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+{_TOP_LEVEL}"
_UNIT = "|".join(re.escape(unit) for unit in sorted(lexicon.UNITS, key=len, reverse=True))
_FRACTIONS = {"½": (1, 2), "¼": (1, 4), "¾": (3, 4), "⅓": (1, 3), "⅔": (2, 3), "⅛": (1, 8)}
_ADDRESS_SIGNS = {
    ".": "dot",
    "-": "dash",
    "_": "underscore",
    "/": "slash",
    "@": "at",
    "+": "plus",
    "?": "question mark",
}
_END = r"(?![\w])"


def _address(text: str) -> str:
    """An e-mail or web address, signs by name and digits one by one."""
    parts = re.findall(r"[A-Za-z]+|\d|[^A-Za-z\d]", text)
    return " ".join(digits(p) if p.isdigit() else _ADDRESS_SIGNS.get(p, "" if not p.isalpha() else p) for p in parts)


def _web(match: re.Match[str]) -> Reading:
    address = re.sub(r"^(?:https?://)?(?:www\.)?", "", match.group(), flags=re.IGNORECASE).rstrip("/")
    return _address(address.partition("?")[0])


def _money(match: re.Match[str]) -> Reading:
    scale = (match["scale"] or "").lower()
    sign = "minus " if match["minus"] else ""
    return sign + verbalise.money(match["symbol"], match["amount"], _SCALES.get(scale, scale))


def _money_range(match: re.Match[str]) -> Reading:
    return f"{decimal(match['low'])} to {verbalise.money(match['symbol'], match['high'])}"


def _coded_money(match: re.Match[str]) -> Reading:
    symbol = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}[match["code"] or match["code_after"]]
    return verbalise.money(symbol, match["amount"] or match["amount_before"])


def _valid_date(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _iso_date(match: re.Match[str]) -> Reading:
    year, month, day = (int(part) for part in match.groups())
    return verbalise.date(month, day, year) if _valid_date(month, day) else None


def _us_date(match: re.Match[str]) -> Reading:
    month, day, year = int(match[1]), int(match[2]), int(match[3])
    year += 2000 if year < 50 else 1900 if year < 100 else 0
    return verbalise.date(month, day, year) if _valid_date(month, day) else None


def _month_date(match: re.Match[str]) -> Reading:
    month, day = _MONTH_NUMBERS[match["month"].lower()], int(match["day"])
    if not _valid_date(month, day):
        return None
    year = int(match["year"]) if match["year"] else None
    if match.groupdict().get("of"):
        return f"{ordinal(day)} of {MONTHS[month - 1]}" + (f", {verbalise.year(year)}" if year is not None else "")
    return verbalise.date(month, day, year)


def _month_year(match: re.Match[str]) -> Reading:
    return f"{MONTHS[_MONTH_NUMBERS[match['month'].lower()] - 1]} {verbalise.year(int(match['year']))}"


def _month_short(match: re.Match[str]) -> Reading:
    return MONTHS[lexicon.MONTHS_SHORT[match[1].lower()] - 1]


def _clock(match: re.Match[str]) -> Reading:
    groups = match.groupdict()
    hour, minute = int(match["hour"]), int(groups.get("minute") or "0")
    half = (groups.get("half") or "").lower()
    if minute > 59 or hour > (12 if half else 24):
        return None
    return verbalise.clock(hour, minute, f"{half}M".upper() if half else "")


def _clock_range(match: re.Match[str]) -> Reading:
    half = f"{match['half']}M".upper() if match["half"] else ""
    times = []
    for side in ("1", "2"):
        hour, minute = int(match[f"hour{side}"]), int(match[f"minute{side}"] or "0")
        if minute > 59 or hour > (12 if half else 24):
            return None
        times.append((hour, minute))
    if not half and not (match["minute1"] and match["minute2"]):
        return None
    (hour1, minute1), (hour2, minute2) = times
    first = verbalise.clock(hour1, minute1).removesuffix(" o'clock")
    return f"{first} to {verbalise.clock(hour2, minute2, half)}"


def _phone(match: re.Match[str]) -> Reading:
    groups = re.findall(r"\d+", match.group())
    spoken = ", ".join(digits(group) for group in groups)
    return ("plus " if match.group().startswith("+") else "") + spoken


def _with_unit(match: re.Match[str]) -> Reading:
    one, many = lexicon.UNITS[match["unit"]]
    sign = "minus " if match["minus"] else ""
    if match["high"]:
        return f"{decimal(match['number'])} to {decimal(match['high'])} {many}"
    return f"{sign}{decimal(match['number'])} {one if match['number'] == '1' else many}"


def _integer(match: re.Match[str]) -> Reading:
    text = match.group()
    if len(text) == 4 and (1100 <= int(text) <= 2099):
        return verbalise.year(int(text))
    if len(text) >= 5 or (len(text) > 1 and text[0] == "0"):
        return digits(text)
    return cardinal(int(text))


def _roman(match: re.Match[str]) -> Reading:
    before, numeral = match["before"], match["numeral"]
    value = verbalise.roman(numeral)
    if not value:
        return None
    if before.lower() in lexicon.NUMBERED:
        return f"{before} {cardinal(value)}"
    return f"{before} the {ordinal(value)}" if len(numeral) > 1 else None


def _saint_or_street(match: re.Match[str]) -> Reading:
    before = match.string[: match.start()].split()
    after = match.string[match.end() :].lstrip()
    street = bool(before) and (before[-1][:1].isupper() or before[-1][-2:] in ("th", "st", "nd", "rd"))
    street = street and (len(before) > 1 or not after[:1].isupper())
    return "street" if street or not after[:1].isupper() else "saint"


def _abbreviation(match: re.Match[str]) -> Reading:
    key = match["word"].lower()
    if key not in lexicon.ABBREVIATIONS or (not match["stop"] and key not in lexicon.ALSO_BARE):
        return None
    if key == "dr" and not match.string[match.end() :].lstrip()[:1].isupper():
        return "drive"
    return lexicon.ABBREVIATIONS[key]


def _number_sign(match: re.Match[str]) -> Reading:
    text = match["number"]
    return f"number {digits(text) if len(text) > 3 else cardinal(int(text))}"


def _capitals(match: re.Match[str]) -> Reading:
    word = match["word"]
    if word.lower() in lexicon.WORDS:
        return lexicon.WORDS[word.lower()]
    if word in lexicon.SPELLED or not re.search(r"[AEIOUY]", word):
        return verbalise.spell(word) + ("s" if match["plural"] else "")
    return None


def _code(match: re.Match[str]) -> Reading:
    """A reference such as AB12 or 7XK2; "B2B" as well."""
    return verbalise.spell(match.group())


def _rule(pattern: str, reading: Callable[[re.Match[str]], Reading], flags: int = 0) -> Rule:
    return re.compile(pattern, flags), reading


_I = re.IGNORECASE
_DAYS_OF_MONTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"

RULES: tuple[Rule, ...] = (
    _rule(r"[\w.+-]+@" + _DOMAIN + r"\b", lambda m: _address(m.group()), _I),
    _rule(rf"(?:https?://|www\.)[^\s,;!]*[^\s,;!?.)]|{_DOMAIN}(?:/[\w/.-]*[\w/])?(?![\w.]*@)\b", _web, _I),
    _rule(r"24/7" + _END, lambda _: "twenty four seven"),
    _rule(rf"(?P<symbol>[$€£¥])(?P<low>{_NUMBER})\s?[-–]\s?[$€£¥]?(?P<high>{_NUMBER}){_END}", _money_range),
    _rule(
        rf"(?P<minus>-)?(?P<symbol>[$€£¥])\s?(?P<amount>{_NUMBER})"
        r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|mn|[kKmMbB])\b)?(?![\d])",
        _money,
    ),
    _rule(
        rf"(?P<code>USD|EUR|GBP|JPY)\s?(?P<amount>{_NUMBER}){_END}"
        rf"|(?P<amount_before>{_NUMBER})\s?(?P<code_after>USD|EUR|GBP|JPY){_END}",
        _coded_money,
    ),
    _rule(r"(\d{4})-(\d{2})-(\d{2})" + _END, _iso_date),
    _rule(r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})" + _END, _us_date),
    _rule(
        rf"(?P<hour1>\d{{1,2}})(?::(?P<minute1>\d{{2}}))?(?:\s?[ap]\.?m\.?)?\s?[-–]\s?"
        rf"(?P<hour2>\d{{1,2}})(?::(?P<minute2>\d{{2}}))?(?:\s?{_HALF})?{_END}",
        _clock_range,
        _I,
    ),
    _rule(rf"(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})\s?{_HALF}", _clock, _I),
    _rule(rf"(?P<hour>\d{{1,2}})\s?{_HALF}", _clock, _I),
    _rule(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::\d{2})?(?:\s?o'clock)?(?![\d:])", _clock),
    _rule(
        r"(?<=\bat )(?P<hour>\d{1,2})\.(?P<minute>[0-5]\d)(?![\d%])"
        r"|(?<=\b(?:by|to) )(?P<hour_b>\d{1,2})\.(?P<minute_b>[0-5]\d)(?![\d%])",
        lambda m: _clock(re.match(r"(?P<hour>\d+)\.(?P<minute>\d+)", m.group()) or m),
        _I,
    ),
    _rule(rf"{_MONTH}\s{_DAYS_OF_MONTH}(?:,?\s(?P<year>\d{{4}}))?(?![\w:]|\.\d)", _month_date),
    _rule(rf"{_DAYS_OF_MONTH}\s(?P<of>of\s)?{_MONTH}(?:,?\s(?P<year>\d{{4}}))?{_END}", _month_date),
    _rule(rf"{_MONTH},?\s(?P<year>\d{{4}}){_END}", _month_year),
    _rule(r"(?P<day>Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)\.", lambda m: lexicon.DAYS[m["day"].lower()]),
    _rule(r"(?P<day>Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)\s?[-–]\s?(?P<last>Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun)\b\.?",
          lambda m: f"{lexicon.DAYS[m['day'].lower()]} to {lexicon.DAYS[m['last'].lower()]}"),
    _rule(r"(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.", _month_short),
    _rule(
        r"(?:\+\d{1,3}[\s.-]?)?(?:\(\d{2,4}\)\s?|\d{3}[\s.-])?\d{3}[-.]\d{4}" + _END
        + r"|(?:\+\d{1,3}[\s.-]?)?\(\d{2,4}\)\s?\d{3}[\s.-]\d{4}" + _END
        + r"|\+\d{1,3}(?:[\s.-]\d{2,4}){2,4}" + _END
        + r"|\d{3}[\s]\d{3}[\s]\d{4}" + _END
        + r"|1-8\d\d-\d{3}-\d{4}" + _END,
        _phone,
    ),
    _rule(r"(?P<tens>\d{4}|'?\d0)'?s\b", lambda m: verbalise.decade(int(m["tens"].strip("'")))),
    _rule(r"'(?P<year>\d\d)" + _END, lambda m: cardinal(int(m["year"]))),
    _rule(r"(\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1])), _I),
    _rule(r"(\d+)\s(\d+)/(\d+)" + _END, lambda m: _mixed(int(m[1]), int(m[2]), int(m[3]))),
    _rule(r"(\d+)/(\d+)" + _END, lambda m: verbalise.fraction(int(m[1]), int(m[2])) if int(m[2]) > 1 else None),
    _rule(r"(\d+)\s?([½¼¾⅓⅔⅛])", lambda m: _mixed(int(m[1]), *_FRACTIONS[m[2]])),
    _rule(r"[½¼¾⅓⅔⅛]", lambda m: verbalise.fraction(*_FRACTIONS[m.group()])),
    _rule(r"(\d+)\s?[x×]\s?(\d+)" + _END, lambda m: f"{cardinal(int(m[1]))} by {cardinal(int(m[2]))}"),
    _rule(
        rf"(?P<minus>-)?(?P<number>{_NUMBER})(?:\s?[-–]\s?(?P<high>{_NUMBER}))?\s?(?P<unit>{_UNIT})(?![\w/])",
        _with_unit
    ),
    _rule(rf"({_NUMBER})\s?[-–]\s?({_NUMBER})(?![\w-])", lambda m: f"{_number(m[1])} to {_number(m[2])}"),
    _rule(rf"({_NUMBER})\+(?!\w)", lambda m: f"{decimal(m[1])} plus"),
    _rule(rf"({_NUMBER})[kK]\b", lambda m: f"{decimal(m[1])} thousand"),
    _rule(r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+)" + _END, lambda m: decimal(m.group())),
    _rule(rf"[-−]({_NUMBER}){_END}", lambda m: f"minus {decimal(m[1])}"),
    _rule(r"(?:#|[Nn]o\.\s?|Nr\.\s?|№\s?)(?P<number>\d+)" + _END, _number_sign),
    _rule(r"(?=[A-Z\d]*[A-Z])(?=[A-Z\d]*\d)[A-Z\d]{2,8}" + _END, _code),
    _rule(r"\d+" + _END, _integer),
    _rule(r"(?P<before>[A-Z][a-z]+)\s(?P<numeral>[IVXLC]+)\b(?!')", _roman),
    _rule(r"(?:e\.g\.|i\.e\.|a\.k\.a\.|p\.s\.|w/o?(?=\s))", lambda m: lexicon.LATIN.get(m.group().lower()), _I),
    _rule(r"[Ss]t\.", _saint_or_street),
    _rule(r"St(?=\s[A-Z])", _saint_or_street),
    _rule(r"(?P<half>[ap])\.m\.", lambda m: f"{m['half']}M".upper(), _I),
    _rule(r"(?:[A-Z]\.){2,}", lambda m: verbalise.spell(m.group())),
    _rule(r"(?P<word>[A-Z]{2,5})(?P<plural>s?)\b(?![-'.]\w)", _capitals),
    _rule(r"(?P<word>[A-Za-z]+)(?P<stop>\.?)" + _END, _abbreviation),
    _rule(r"(?:and/or|n/a|wi-?fi|bbq|thx|pls|ok)\b", lambda m: lexicon.WORDS[m.group().lower()], _I),
    _rule(r"[&@=+](?=\s|$)", lambda m: lexicon.WORDS[m.group()]),
)  # fmt: skip


def _mixed(whole: int, top: int, bottom: int) -> str:
    part = "a half" if (top, bottom) == (1, 2) else verbalise.fraction(top, bottom)
    return f"{cardinal(whole)} and {part}"


def _number(text: str) -> str:
    return verbalise.year(int(text)) if re.fullmatch(r"(?:1[1-9]|20)\d\d", text) else decimal(text)


def readings(text: str, position: int) -> Iterator[tuple[int, str]]:
    """What the rules make of the text at a word's start: the match's end and its words, the first rule's only."""
    for pattern, reading in RULES:
        match = pattern.match(text, position)
        if match is not None and match.end() > position:
            spoken = reading(match)
            if spoken is not None:
                yield match.end(), spoken
                return
