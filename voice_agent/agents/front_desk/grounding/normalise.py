"""One spelling for what any recogniser writes: lower case, no punctuation, numbers in words.

"Yes, 7.30 p.m. on the 4th for 2." and "yes seven thirty pm on the fourth for two" become the same words, so that the
language model meets one form of each value and the grammar of dates, times and numbers is written once.
"""

from __future__ import annotations

import re
import unicodedata

from voice_agent.agents.front_desk import speech

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SAME_WORD = {
    "ok": "okay",
    "umm": "um",
    "uhm": "um",
    "erm": "um",
    "em": "um",
    "ehm": "um",
    "uhh": "uh",
    "er": "uh",
    "eh": "uh",
    "ah": "uh",
    "hmm": "hm",
    "mm": "hm",
    "mmm": "hm",
    "yup": "yep",
    "oclock": "o'clock",
    "alright": "all right",
    "thankyou": "thank you",
    "mon": "monday",
    "tues": "tuesday",
    "thurs": "thursday",
    # Apostrophes that a recogniser left out, where nothing else can be meant.
    "im": "i'm",
    "ive": "i've",
    "youre": "you're",
    "thats": "that's",
    "thatll": "that'll",
    "thatd": "that'd",
    "itll": "it'll",
    "its": "it's",
    "whats": "what's",
    "wheres": "where's",
    "hows": "how's",
    "theres": "there's",
    "therell": "there'll",
    "lets": "let's",
    "dont": "don't",
    "doesnt": "doesn't",
    "didnt": "didn't",
    "isnt": "isn't",
    "arent": "aren't",
    "cant": "can't",
    "couldnt": "couldn't",
    "wouldnt": "wouldn't",
    "havent": "haven't",
    "havn't": "haven't",
    "weve": "we've",
    "names": "name's",
    "surnames": "surname's",
}
_HOURS = "|".join((*(speech.cardinal(n) for n in range(1, 13)), "thirty", "fifteen", "five", "o'clock"))
_TIME = re.compile(r"\b(\d{1,2})[:.h](\d{2})(?!\d)")
_HALF_DAY = re.compile(rf"(?<=[\d ])([ap])\.\s?m\b\.?|(?<=\d)\s?([ap])\s?m\b|\b({_HOURS}) ([ap]) m\b")
_ORDINAL = re.compile(r"\b(\d{1,2})\s?(?:st|nd|rd|th)\b")
_US_DATE = re.compile(r"\b(\d{1,2})/(\d{1,2})(?:/\d{2,4})?\b")
_ISO_DATE = re.compile(r"\b\d{4}-(\d{2})-(\d{2})\b")
_THOUSAND = re.compile(r"\b(\d),(\d{3})\b")
_YEAR = re.compile(rf"\b((?:{'|'.join(_MONTHS)})[^.?!]{{0,8}}?),?\s20\d\d\b")


def _time_words(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2])
    if hour > 24 or minute > 59:
        return f" {match[1]} {match[2]} "
    if minute == 0:
        return f" {speech.cardinal(hour)} o'clock "
    return f" {speech.cardinal(hour)} {'oh ' if minute < 10 else ''}{speech.cardinal(minute)} "


def _date_words(month: int, day: int) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return f" {month} {day} "
    return f" {_MONTHS[month - 1]} {speech.ordinal(day)} "


def _digit_words(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) <= 2 and not (len(text) == 2 and text[0] == "0"):
        return f" {speech.cardinal(int(text))} "
    if len(text) == 3 and text[0] != "0" and int(text[1:]) < 60:  # "730", a time without its colon
        return _time_words(re.match(r"(\d)(\d\d)", text))  # type: ignore[arg-type]
    return f" {speech.digits(text)} "


def normalise(text: str) -> str:
    """Lower case, unpunctuated, numbers in words; words are separated by single spaces. Idempotent.

    Booking numbers come out digit by digit, "7:30" as "seven thirty", "4th" as "fourth", "12/4" as "december fourth"
    (month first), apostrophes inside words stay.
    """
    text = text.replace("\u2019", "'").replace("\u2018", "'")
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    text = text.lower()
    text = _ISO_DATE.sub(lambda m: _date_words(int(m[1]), int(m[2])), text)
    text = _US_DATE.sub(lambda m: _date_words(int(m[1]), int(m[2])), text)
    text = _THOUSAND.sub(r"\1\2", text)
    text = _HALF_DAY.sub(lambda m: f" {m[3] or ''} {m[1] or m[2] or m[4]}m ", text)
    text = _TIME.sub(_time_words, text)
    text = _YEAR.sub(r"\1", text)
    text = _ORDINAL.sub(lambda m: f" {speech.ordinal(int(m[1]))} " if int(m[1]) else m[1], text)
    text = re.sub(r"\d+", _digit_words, text)
    text = text.replace("&", " and ")
    text = re.sub(r"[^a-z' ]", " ", text)
    words = (w.strip("'") for w in text.split())
    return " ".join(_SAME_WORD.get(w, w) for w in words if w)
