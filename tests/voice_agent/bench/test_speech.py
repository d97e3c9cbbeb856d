import json
from pathlib import Path

import pytest

from voice_agent.bench.speech import main
from voice_agent.bench.speech_measure import count_underruns, percentiles
from voice_agent.bench.word_errors import word_errors


def test_word_errors_count_what_differs_not_how_numbers_are_written() -> None:
    assert word_errors("A table at 7:30 for 4 people.", "a table at seven thirty, for four people") == (0, 8)
    assert word_errors("my name is Smith", "my name was Smith, sir") == (2, 4)
    assert word_errors("hello there", "") == (2, 2)


def test_underruns_are_chunks_that_came_after_the_last_one_had_been_played() -> None:
    assert count_underruns([0.1, 0.3, 0.5], [0.3, 0.5, 0.5]) == 0
    assert count_underruns([0.1, 0.5, 0.6], [0.3, 0.5, 0.5]) == 1


def test_percentiles() -> None:
    assert percentiles([1, 2, 3, 4, 100]) == {"median": 3.0, "p10": 1.4, "p90": 61.6}


def test_the_benchmark_reports_speed_and_quality(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out" / "speech.json"
    assert main(["--runs", "1", "--json", str(target)]) == 0
    report = json.loads(target.read_text())
    assert [row["words"] for row in report["voice"]["first_audio"]] == [3, 8, 20]
    assert [row["speech_s"] for row in report["recognizer"]["partial"]] == [2.0, 4.0]
    assert report["voice"]["seam_db"] > 90
    assert report["recognizer"]["short_wer"] < 0.2
    assert report["machine"]["cpu"]
    table = capfd.readouterr().out
    assert "20 words" in table
    assert "word error rate" in table


def test_senseless_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "0"]) == 2
    assert "--runs" in capsys.readouterr().err
