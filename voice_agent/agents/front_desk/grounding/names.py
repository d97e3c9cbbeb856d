"""The caller's name in a list of words: after "my name is" and the like, spelled, or as a bare answer."""

from __future__ import annotations

from collections.abc import Sequence

from voice_agent.agents.front_desk.facts import WEEKDAYS
from voice_agent.agents.front_desk.grounding import numbers
from voice_agent.agents.front_desk.grounding.words import is_question, word_set

# Function words, fillers and the like: a name ends before them, whatever the cue was.
_NEVER = word_set(
    """
    a an and any are as at be because but by can could do does did don't for from had has have he her here hers
    him his how i i'd i'll i'm i've if in is it it'll it's its just let like maybe me my myself no nope not of
    oh okay on or our please put same she so sorry spelled spelt speaking than thank thanks that that's the
    their them then there there's they this to today tomorrow tonight too um uh hm under us was we we'd we'll
    we're well were what what's when where which who why will with would yeah yep yes you you're your back after
    once listen instead actually said needs again all also booking reservation table name number right wait
    cheers write use down surname should starting thatd thatll preferably whereabouts im
    """
) | frozenset(WEEKDAYS)
# Words of the trade and of everyday answers: not a name unless the caller said that it is one.
_RARELY = word_set(
    """
    about able accessible ill sick bored checking disappointed selling fine looking calling thinking asking
    going being having wondering hoping trying ringing phoning wanting planning moving changing cancelling
    bringing getting making talking speaking working parking eating staying waiting using paying visiting
    arriving reserving booking excuse mhm around parties twice charged sell think bear afraid ask asked line
    afternoon allergic allergies allergy alone already alright always another anyone anything appointment april
    august available away back baby bad before birthday bit book booked both bring brother bye cancel cancelled
    car card cash change changed check child children christmas close closed colleague come coming confirm
    correct couple date day days december deliver delivery different dinner discount dog dogs done double down
    dress early earlier easter eat else evening ever everything exactly february few find first food forgot
    forget four free friday friend friends full game get give go goes gone good got great guess guests half hang
    happy he's hello help hey hi hold hope hour hours human hungry husband idea january joke july june keep
    kidding kids kind know last late later leave left less little live long look lost lot lovely lunch made make
    manager many march menu mind mine minute minutes moment money month more morning move much music need never
    new next nice night nobody none noon nothing november now o'clock october off old one only open operator
    order original other out over part party pay people perfect person phone pizza place plan played possible
    question quarter quick quite rather read ready real really receptionist remember repeat request robot
    running saturday say second see september she's someone something soon spell staff start still stop stupid
    such sunday sure table take takeaway talk tell terrace terrible time times top total try two uncle
    understand until up use usual vegan vegetarian very visit voucher waiter want weather week weekend well
    wheelchair whoever wife wine wonderful word work works wrong year yesterday cheap expensive correction
    nevermind mistake scratch mean meant sorry's pardon ish pm am sharp either neither same's name's thing
    things way what're where's how's let's that'll that'd there'll they're they've you've isn't aren't wasn't
    weren't won't can't couldn't wouldn't shouldn't doesn't didn't haven't hasn't hadn't i'd've sec seconds
    goodbye cheerio speak absolutely definitely certainly course indeed agreed precisely gotcha ahead incorrect
    calendar bother call testing restaurant thatll theyll celiac coeliac disease problem charge missed sing song
    """
)
# Cues that the next words are a name, the longest first; strong ones are believed whatever follows.
_STRONG = (
    ("name", "of", "the", "booking", "is"),
    ("under", "the", "name", "of"),
    ("in", "the", "name", "of"),
    ("on", "the", "name", "of"),
    ("under", "the", "name"),
    ("the", "name", "would", "be"),
    ("name", "should", "be"),
    ("name", "would", "be"),
    ("name", "will", "be"),
    ("last", "name", "is"),
    ("last", "name's"),
    ("my", "surname", "is"),
    ("surname", "is"),
    ("surname",),
    ("last", "name"),
    ("surname's",),
    ("name", "it's"),
    ("name", "is"),
    ("name's",),
    ("names",),
    ("i'm", "called"),
    ("they", "call", "me"),
    ("put", "it", "under"),
    ("it's", "under"),
    ("under",),
    ("name", "of"),
    ("name",),
    ("mr",),
    ("mrs",),
    ("ms",),
    ("miss",),
    ("doctor",),
)
_WEAK = (("this", "is"), ("it's",), ("i'm",), ("i", "am"), ("that's",), ("for",), ("it", "is"))
_FILLER = frozenset(("um", "uh", "like", "well", "hm", "oh", "it's", "is", "yeah"))
# Before a name that corrects the one read back, and after it.
_CORRECTING = (
    ("it's",),
    ("i", "said"),
    ("meant",),
    ("i", "mean"),
    ("should", "be"),
    ("make", "it"),
    ("make", "that"),
    ("no",),
    ("nope",),
    ("sorry",),
)
_AFTER_CORRECTION = word_set(
    """
    please instead thanks thank if that's spelled is would not cheers that'd preferably will can and
    """
)
_IS_NAME = (("is", "my", "name"), ("is", "the", "name"))
_POLITE = word_set(
    """
    still get much very something someone trouble chance now look room evening morning afternoon night day week
    noon january february march april may june july august september october november december half quarter
    people party guests two four one zero friends adults kids children monday sunday wife husband starting
    around please thanks thank you great lovely nice perfect good fine okay sure possible work works right
    cheers mind have anything space call booked spell double happy quick moment make made mean meant let instead
    hold second last first correct yes that'll course say use down hey let's just that'd table person persons
    """
)
_MAX_WORDS = 3


def _letters(words: Sequence[str], at: int, *, expected: bool) -> tuple[str, int] | None:
    """A spelled name that begins at `at`: "s m i t h", "s m i double t", "b for bravo", as (name, words taken)."""
    name, i, single = "", at, 0
    while i < len(words):
        word = words[i]
        if len(word) == 1 and word.isalpha():
            name, single = name + word, single + 1
            if (
                words[i + 1 : i + 2] == ["for"]
                and len(words) > i + 2
                and words[i + 2].startswith(word)
                and len(words[i + 2]) > 2
            ):
                i += 2
            elif words[i + 1 : i + 3] == ["as", "in"] and len(words) > i + 3 and words[i + 3].startswith(word):
                i += 3
        elif word == "double" and i + 1 < len(words) and len(words[i + 1]) == 1:
            name, i, single = name + words[i + 1] * 2, i + 1, single + 2
        else:
            break
        i += 1
    enough = 2 if expected else 3
    return (name, i - at) if single >= enough else None


def _plausible(word: str, *, strong: bool) -> bool:
    if (
        word.endswith(("n't", "'ll", "'ve", "'re", "'d"))
        or word in _NEVER
        or word in numbers.CARDINALS
        or word in numbers.ORDINALS
        or len(word) < 2
    ):
        return False
    return strong or (word not in _RARELY and not word.endswith("'s"))


def _run(words: Sequence[str], at: int, *, strong: bool) -> int:
    """How many words from `at` can be one name."""
    end = at
    while end < len(words) and end - at < _MAX_WORDS and _plausible(words[end], strong=strong and end == at):
        end += 1
    return end - at


def _cue(words: Sequence[str], at: int, cues: Sequence[tuple[str, ...]]) -> int:
    """How many words of a cue end right before `at`; 0 when none does."""
    for cue in cues:
        if tuple(words[max(0, at - len(cue)) : at]) == cue:
            return len(cue)
    return 0


def name(words: Sequence[str], at: int, *, expected: bool, correcting: bool = False) -> tuple[str, int] | None:
    """A name that begins at `at`, as (name, words taken), or None.

    `expected`: the agent has just asked for it, so a bare name counts; `correcting`: the agent has just read the
    details back, so "no, smith" counts. A spelling after the name wins over what the recogniser made of it.
    """
    spelled = _letters(words, at, expected=expected)
    if spelled:
        return spelled
    strong = bool(_cue(words, at, _STRONG)) and not _cue(words, at, _IS_NAME)
    length = _run(words, at, strong=strong)
    if not length:
        return None
    end = at + length
    weak = _cue(words, at, _WEAK)
    follows = tuple(words[end : end + 3])
    introduced = weak and words[at - weak] in ("this", "i'm", "i") and at <= 4
    introduced = introduced or bool(_cue(words, at, (("it's", "for"), ("that's", "for"))))
    introduced = introduced or follows[:1] in (("here",), ("speaking",)) or follows in _IS_NAME
    correction = correcting and not is_question(words) and _cue(words, at, _CORRECTING)
    correction = correction and (not follows or follows[0] in _AFTER_CORRECTION or len(follows[0]) == 1)
    if not (strong or introduced or correction or (expected and _is_answer(words, at, end, bool(weak)))):
        return None
    found, j = " ".join(words[at:end]), end
    while j < len(words) and words[j] in ("that's", "so", "spelled", "spelt", "with", "as", "in"):
        j += 1
    spelled = _letters(words, j, expected=False)
    if spelled:
        first = found.rpartition(" ")[0]
        found = f"{first} {spelled[0]}".strip() if spelled[0][0] == words[end - 1][0] else spelled[0]
        end = j + spelled[1]
    return found, end - at


def _is_answer(words: Sequence[str], start: int, end: int, weak: bool) -> bool:
    """Whether `words[start:end]` can be the answer to the question for a name: nothing else of weight is said."""
    if is_question(words):
        return False
    return weak or not any(w in _RARELY - _POLITE for w in (*words[:start], *words[end:]))
