"""What is written down: one JSON object a line, raw values, seconds and bytes."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ._case import Params
from ._discover import UsageError

SCHEMA = 1
RESULTS = "results.jsonl"
STATUSES = ("ok", "missing", "failed")

_NOT_IN_JSON = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One contender on one set of parameters; `docs/results.md` describes the fields.

    Everything that a report needs is in the record itself, so that a line can be
    moved, merged or quoted without the file it came from.
    """

    case: str
    contender: str
    params: Params
    profile: str
    status: str
    claim: str = ""
    baseline: str = ""
    quality_name: str | None = None
    better: str = "lower"
    tolerance: float | None = None
    version: str = ""
    reason: str | None = None
    install: str | None = None
    setup_s: float | None = None
    first_s: float | None = None
    calls: int = 1
    times_s: list[float] = field(default_factory=list)
    quality: dict[str, float] = field(default_factory=dict)
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    git: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    started: str = ""
    schema: int = SCHEMA

    @property
    def group(self) -> tuple[str, str]:
        """Case and parameters: what contenders are compared within."""
        return self.case, json.dumps(dict(self.params), sort_keys=True)

    @property
    def key(self) -> Key:
        """What the record is about; a later record with the same key replaces it."""
        return (*self.group, self.contender)

    @property
    def score(self) -> float | None:
        """Return the headline quality."""
        return (
            None if self.quality_name is None else self.quality.get(self.quality_name)
        )

    def to_line(self) -> str:
        """Return the record as one line of strict JSON, without the line's end."""
        return json.dumps(_encode(asdict(self)), allow_nan=False, ensure_ascii=False)


def from_line(line: str) -> Record:
    """Read one record.

    Raises
    ------
    ValueError
        Where the line is no JSON, of another schema, or not a record.
    """
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg})") from None
    if not isinstance(content, dict):
        raise ValueError(f"not an object but {type(content).__name__}")
    if content.get("schema") != SCHEMA:
        raise ValueError(
            f"`schema` must be {SCHEMA}, got {content.get('schema')!r}; "
            "another version of bench-harness wrote it"
        )
    known = {item.name for item in fields(Record)}
    if unknown := sorted(content.keys() - known):
        raise ValueError(f"unknown fields {unknown}")
    try:
        record = Record(**_decode(content))
    except TypeError as error:
        raise ValueError(str(error).replace("Record.__init__() ", "")) from None
    _check(record)
    return record


def read_results(path: str | Path) -> list[Record]:
    """Read a results file, or the one in the folder that a run wrote.

    Of several records with the same case, parameters and contender the last one counts,
    at the place of the first. A last line without an end is what an interrupted write
    leaves; it is passed over.

    Parameters
    ----------
    path : path
        A ``.jsonl`` file or the output folder of a run.

    Raises
    ------
    UsageError
        Where there is no such file, or a line of it is not a record.
    """
    path = Path(path)
    file = path / RESULTS if path.is_dir() else path
    if not file.is_file():
        what = f"no `{RESULTS}` in `{path}`" if path.is_dir() else f"no file `{path}`"
        raise UsageError(f"{what}. Name the output folder of a `bench run`.")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"`{file}` cannot be read: {error}.") from None
    records: dict[Key, Record] = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if not line.strip():
            continue
        try:
            record = from_line(line)
        except ValueError as error:
            raise UsageError(f"`{file}`, line {number}: {error}.") from None
        records[record.key] = record
    if not records and text.strip():
        raise UsageError(f"`{file}` holds no whole record.")
    return list(records.values())


class Writer:
    """Appends records to the results file of a folder, one group at a time.

    Raises
    ------
    UsageError
        Where the folder cannot be made or written to.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / RESULTS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self.file.open("ab+") as stream:
                _end_last_line(stream)
        except OSError as error:
            raise UsageError(
                f"`{folder}` cannot be written to: {error.strerror}. "
                "Name another folder with `--output`."
            ) from None

    def append(self, records: Iterable[Record]) -> None:
        """Write the records at once, so that an interrupt splits no group."""
        text = "".join(record.to_line() + "\n" for record in records)
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(text)


def _end_last_line(stream: Any) -> None:
    """Cut what an interrupted write left without a line's end."""
    stream.seek(0)
    content = stream.read()
    stream.truncate(content.rfind(b"\n") + 1)


def _check(record: Record) -> None:
    if record.status not in STATUSES:
        raise ValueError(f"`status` must be one of {STATUSES}, got {record.status!r}")
    for name in ("case", "contender", "profile"):
        if not isinstance(getattr(record, name), str):
            raise ValueError(
                f"`{name}` must be a string, got {getattr(record, name)!r}"
            )
    for name in ("params", "quality", "curves", "memory", "machine", "software", "git"):
        value = getattr(record, name)
        if not isinstance(value, Mapping):
            raise ValueError(f"`{name}` must be an object, got {value!r}")
    times = record.times_s
    if not isinstance(times, list) or not all(
        isinstance(t, int | float) and t >= 0 for t in times
    ):
        raise ValueError(f"`times_s` must be a list of seconds, got {times!r}")
    if record.status == "ok" and not times:
        raise ValueError("`times_s` must not be empty where `status` is 'ok'")


def _encode(value: Any) -> Any:
    """Write NaN and the infinities as strings: JSON has no numbers for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value


def _decode(content: dict[str, Any]) -> dict[str, Any]:
    for name in ("quality", "curves"):
        if name in content:
            content[name] = _decode_numbers(content[name])
    return content


def _decode_numbers(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_IN_JSON.get(value, value)
    if isinstance(value, Mapping):
        return {key: _decode_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode_numbers(item) for item in value]
    return value
