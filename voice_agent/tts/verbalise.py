"""Numbers, money, times and dates as English words. Pure; the words themselves come from num2words."""

from __future__ import annotations

import re

from num2words import num2words

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DENOMINATORS = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def _plain(words: str) -> str:
    return re.sub(r"\s+", " ", words.replace("-", " ").replace(",", "").replace(" and ", " ")).strip()


def cardinal(number: int) -> str:
    """42 -> forty two."""
    return _plain(num2words(number))


def ordinal(number: int) -> str:
    """42 -> forty second."""
    return _plain(num2words(number, to="ordinal"))


def digits(text: str) -> str:
    """The digits of a text one by one: "0199" -> zero one nine nine."""
    return " ".join(_DIGITS[int(character)] for character in text if character.isdigit())


def decimal(text: str) -> str:
    """A number as written, thousands separated by commas: "1,234.5" -> one thousand two hundred thirty four point five.

    A whole number with a leading zero is read digit by digit.
    """
    whole, _, fraction = text.replace(",", "").partition(".")
    spoken = digits(whole) if len(whole) > 1 and whole.startswith("0") else cardinal(int(whole or "0"))
    return f"{spoken} point {digits(fraction)}" if fraction else spoken


def year(number: int) -> str:
    """1905 -> nineteen oh five; 2000 -> two thousand; 2026 -> twenty twenty six."""
    century, rest = divmod(number, 100)
    if number % 1000 < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} oh {cardinal(rest)}" if rest < 10 else f"{cardinal(century)} {cardinal(rest)}"


def decade(number: int) -> str:
    """1920 -> nineteen twenties; 90 -> nineties; 2000 -> two thousands."""
    spoken = cardinal(number) if number < 100 else year(number)
    return spoken[:-1] + "ies" if spoken.endswith("y") else spoken + "s"


def money(symbol: str, amount: str, scale: str = "") -> str:
    """("$", "49.95") -> forty nine dollars and ninety five cents.

    With a scale: ("$", "1.5", "million") -> one point five million dollars.
    """
    one, many, minor_one, minor_many = _CURRENCIES[symbol]
    whole, _, fraction = amount.replace(",", "").partition(".")
    if scale:
        return f"{decimal(amount)} {scale} {many}"
    if fraction and (len(fraction) != 2 or not minor_one):
        return f"{decimal(amount)} {many}"
    major = int(whole or "0")
    minor = int(fraction or "0")
    spoken_minor = f"{cardinal(minor)} {minor_one if minor == 1 else minor_many}"
    if major == 0 and minor:
        return spoken_minor
    spoken = f"{cardinal(major)} {one if major == 1 else many}"
    return f"{spoken} and {spoken_minor}" if minor else spoken


def clock(hour: int, minute: int, half: str = "") -> str:
    """A time of day, in twelve hours; `half` is "AM", "PM", or empty where the text doesn't say.

    (8, 0) -> eight o'clock; (8, 0, "PM") -> eight PM; (7, 5) -> seven oh five; (19, 30) -> seven thirty PM.
    """
    if not half and not 1 <= hour <= 12:
        half = "PM" if 12 <= hour < 24 else "AM"
        hour = hour % 12 or 12
    if minute == 0 and not half:
        return f"{cardinal(hour)} o'clock"
    minutes = "" if minute == 0 else f" oh {cardinal(minute)}" if minute < 10 else f" {cardinal(minute)}"
    return f"{cardinal(hour)}{minutes}" + (f" {half}" if half else "")


def date(month: int, day: int, in_year: int | None = None) -> str:
    """(12, 1, 2026) -> December first, twenty twenty six."""
    spoken = f"{MONTHS[month - 1]} {ordinal(day)}"
    return f"{spoken}, {year(in_year)}" if in_year is not None else spoken


def fraction(top: int, bottom: int) -> str:
    """(3, 4) -> three quarters; (1, 2) -> one half; (2, 3) -> two thirds."""
    one, many = _DENOMINATORS.get(bottom, (ordinal(bottom), ordinal(bottom) + "s"))
    return f"{cardinal(top)} {one if top == 1 else many}"


def roman(text: str) -> int:
    """The value of a Roman numeral; 0 for what isn't a well-formed one."""
    if not re.fullmatch(r"M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})", text) or not text:
        return 0
    values = [_ROMAN[letter] for letter in text]
    return sum(-v if v < following else v for v, following in zip(values, [*values[1:], 0], strict=True))


def spell(text: str) -> str:
    """Letters and digits one by one: "B12" -> B one two.

    A is written as it sounds, or it would be read as the article.
    """
    names = (_DIGITS[int(c)] if c.isdigit() else c.upper() for c in text if c.isalnum())
    return " ".join("eigh" if name == "A" else name for name in names)
