"""Words that are written otherwise than spoken: abbreviations, units, acronyms."""

from __future__ import annotations

ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "sr": "senior", "jr": "junior",
    "rev": "reverend", "gen": "general", "capt": "captain", "lt": "lieutenant", "sgt": "sergeant", "gov": "governor",
    "ave": "avenue", "blvd": "boulevard", "rd": "road", "hwy": "highway", "apt": "apartment", "mt": "mount",
    "bldg": "building", "vs": "versus", "etc": "et cetera", "approx": "approximately", "dept": "department",
    "est": "established", "inc": "incorporated", "ltd": "limited", "corp": "corporation", "tel": "telephone",
    "ext": "extension", "min": "minimum", "max": "maximum", "incl": "including", "excl": "excluding",
    "res": "reservation", "appt": "appointment", "temp": "temperature", "misc": "miscellaneous",
}  # fmt: skip
"""Without their full stop, lower case. Most count only with it: see `ALSO_BARE`."""

ALSO_BARE = frozenset({"mr", "mrs", "ms", "dr", "prof", "blvd", "vs", "etc", "ave", "dept", "appt"})
"""Abbreviations that are also meant where the full stop is missing."""

TITLES = frozenset({"mr", "mrs", "ms", "dr", "prof", "rev", "gen", "capt", "lt", "sgt", "gov", "mt", "st"})
"""After these a full stop never ends a sentence."""

DAYS = {
    "mon": "Monday", "tue": "Tuesday", "tues": "Tuesday", "wed": "Wednesday", "thu": "Thursday", "thur": "Thursday",
    "thurs": "Thursday", "fri": "Friday", "sat": "Saturday", "sun": "Sunday",
}  # fmt: skip

MONTHS_SHORT = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11,
    "dec": 12,
}  # fmt: skip

LATIN = {
    "e.g.": "for example",
    "i.e.": "that is",
    "a.k.a.": "also known as",
    "p.s.": "P S",
    "w/": "with",
    "w/o": "without",
}

UNITS = {
    "km": ("kilometer", "kilometers"), "m": ("meter", "meters"), "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"), "mi": ("mile", "miles"), "ft": ("foot", "feet"), "yd": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"), "g": ("gram", "grams"), "mg": ("milligram", "milligrams"),
    "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"), "l": ("liter", "liters"),
    "L": ("liter", "liters"), "ml": ("milliliter", "milliliters"), "mL": ("milliliter", "milliliters"),
    "km/h": ("kilometer per hour", "kilometers per hour"), "mph": ("mile per hour", "miles per hour"),
    "hr": ("hour", "hours"), "hrs": ("hour", "hours"), "h": ("hour", "hours"), "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"), "sec": ("second", "seconds"), "secs": ("second", "seconds"),
    "s": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"), "GB": ("gigabyte", "gigabytes"), "MB": ("megabyte", "megabytes"),
    "kB": ("kilobyte", "kilobytes"), "KB": ("kilobyte", "kilobytes"), "TB": ("terabyte", "terabytes"),
    "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"), "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"), "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"), "V": ("volt", "volts"),
    "kcal": ("kilocalorie", "kilocalories"), "cal": ("calorie", "calories"), "sq ft": ("square foot", "square feet"),
    "°C": ("degree Celsius", "degrees Celsius"), "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"), "%": ("percent", "percent"), "dB": ("decibel", "decibels"),
    "in.": ("inch", "inches"), '"': ("inch", "inches"), "pcs": ("piece", "pieces"), "px": ("pixel", "pixels"),
}  # fmt: skip

SPELLED = frozenset({
    "ATM", "FBI", "CIA", "USA", "UK", "US", "EU", "UN", "ID", "TV", "DJ", "VIP", "BYOB", "RSVP", "FAQ", "DIY",
    "CEO", "CFO", "CTO", "GPS", "SMS", "URL", "PDF", "API", "AI", "IT", "HR", "PR", "QR", "EV", "AC", "DC", "UPS",
    "USB", "CD", "DVD", "BMW", "IBM", "HTML", "CSS", "SQL", "SUV", "MBA", "RN", "NYC", "LA", "SF", "ASAP", "ETA",
    "FYI", "IOU",
})  # fmt: skip
"""Upper-case words read letter by letter although they have a vowel (those without one always are)."""

WORDS = {
    "bbq": "barbecue", "&": "and", "@": "at", "=": "equals", "+": "plus", "wi-fi": "why fie", "wifi": "why fie",
    "ok": "okay", "thx": "thanks", "pls": "please", "phd": "P H D", "n/a": "not applicable", "and/or": "and or",
    "24/7": "twenty four seven", "wwii": "world war two", "wwi": "world war one",
}  # fmt: skip

NUMBERED = frozenset({
    "chapter", "part", "act", "section", "volume", "phase", "type", "class", "level", "step", "world", "war",
    "super", "bowl", "episode", "article", "appendix", "book", "scene", "title", "schedule", "figure", "table",
    "room",
})  # fmt: skip
"""Words before a Roman numeral that is read as a cardinal; after a name it is an ordinal."""
