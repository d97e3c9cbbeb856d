"""The record of all calls, in SQLite, written by a thread of its own."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    call_id TEXT PRIMARY KEY, started_at TEXT NOT NULL, ended_at TEXT, reason TEXT, details TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS turns (
    call_id TEXT NOT NULL REFERENCES calls(call_id), turn INTEGER NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (call_id, turn)
);
"""


class RecordStore:
    """Calls and their turn records. All methods are coroutines; the event loop never waits for the disk.

    Args:
        path: The database file; its folder is made. ``:memory:`` keeps nothing.

    Raises:
        OSError, sqlite3.Error: the file can't be opened.
    """

    def __init__(self, path: Path | str) -> None:
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="record-store")
        self._db = self._executor.submit(_open, str(path)).result()

    async def start_call(self, call_id: str, started_at: str, details: dict[str, Any]) -> None:
        """Note that a call began at ``started_at`` (ISO 8601)."""
        await self._run(
            lambda db: db.execute(
                "INSERT OR REPLACE INTO calls (call_id, started_at, details) VALUES (?, ?, ?)",
                (call_id, started_at, json.dumps(details)),
            )
        )

    async def end_call(self, call_id: str, ended_at: str, reason: str, details: dict[str, Any]) -> None:
        """Note how and when it ended."""
        await self._run(
            lambda db: db.execute(
                "UPDATE calls SET ended_at = ?, reason = ?, details = ? WHERE call_id = ?",
                (ended_at, reason, json.dumps(details), call_id),
            )
        )

    async def put_turn(self, call_id: str, record: dict[str, Any]) -> None:
        """Write a turn's record, or write it anew."""
        await self._run(
            lambda db: db.execute(
                "INSERT OR REPLACE INTO turns (call_id, turn, record) VALUES (?, ?, ?)",
                (call_id, record["turn"], json.dumps(record)),
            )
        )

    async def calls(self, limit: int = 100) -> list[dict[str, Any]]:
        """The latest calls, newest first, without their turns."""

        def read(db: sqlite3.Connection) -> list[dict[str, Any]]:
            rows = db.execute(
                "SELECT calls.*, COUNT(turns.turn) AS turn_count FROM calls LEFT JOIN turns USING (call_id) "
                "GROUP BY call_id ORDER BY started_at DESC, calls.rowid DESC LIMIT ?",
                (limit,),
            ).fetchall()
            return [{**_call(row), "turn_count": row["turn_count"]} for row in rows]

        return await self._run(read)

    async def call(self, call_id: str) -> dict[str, Any] | None:
        """One call with all its turns; None if there is none of that id."""

        def read(db: sqlite3.Connection) -> dict[str, Any] | None:
            row = db.execute("SELECT * FROM calls WHERE call_id = ?", (call_id,)).fetchone()
            if row is None:
                return None
            turns = db.execute("SELECT record FROM turns WHERE call_id = ? ORDER BY turn", (call_id,)).fetchall()
            return {**_call(row), "turns": [json.loads(turn["record"]) for turn in turns]}

        return await self._run(read)

    async def aclose(self) -> None:
        """Write what is pending and close the file."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._db.close)
        self._executor.shutdown(wait=False)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def transaction() -> T:
            with self._db:
                return work(self._db)

        return await asyncio.get_running_loop().run_in_executor(self._executor, transaction)


def _open(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.executescript(_SCHEMA)
    return db


def _call(row: sqlite3.Row) -> dict[str, Any]:
    call = {key: row[key] for key in ("call_id", "started_at", "ended_at", "reason")}
    return {**call, **json.loads(row["details"])}
