"""Archives of data sets: checked first, then unpacked all or not at all."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from lzma import LZMAError
from pathlib import Path
from re import fullmatch

DAMAGED = (
    EOFError,
    OSError,
    LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def unpack(
    archive: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    checksum: str | None = None,
) -> list[Path]:
    """Unpack an archive all or not at all.

    The checksum is verified first. What is in the archive appears in the folder under
    its own name once everything has been unpacked; if anything goes wrong, the folder
    is as before.

    Parameters
    ----------
    archive
        A ``.zip``, a ``.tar`` with or without compression, or one compressed file,
        ``.gz``.
    folder
        Where to put the files; made if it is not there.
    checksum
        ``"sha256:..."`` or ``"md5:..."``, in hexadecimal; `CHECKSUMS` has the published
        ones. None verifies nothing but what the archive format itself does.

    Returns
    -------
    list[Path]
        The files and folders that have been added to `folder`.

    Raises
    ------
    FileNotFoundError
        If there is no such archive.
    FileExistsError
        If the folder already has a file or folder of the same name.
    ValueError
        If the checksum is another one, or the archive is damaged or of another format.

    Examples
    --------
    >>> import pathlib, tempfile, zipfile
    >>> from spike_core.data import unpack
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     archive = pathlib.Path(folder, "data.zip")
    ...     with zipfile.ZipFile(archive, "w") as file:
    ...         file.writestr("labels.txt", "0 1 2")
    ...     [path.name for path in unpack(archive, folder)]
    ['labels.txt']
    """
    archive = Path(archive).expanduser()
    if checksum is not None:
        verify(archive, checksum)
    if not archive.is_file():
        raise FileNotFoundError(f"there is no file {archive}")
    with staging(folder) as stage:
        try:
            _extract(archive, stage)
        except DAMAGED as error:
            raise ValueError(
                f"{archive} cannot be unpacked ({error}); download it again"
            ) from error
        return move_into(folder, sorted(stage.iterdir()))


def verify(path: str | os.PathLike[str], checksum: str) -> None:
    """Refuse a file whose checksum is another one.

    Parameters
    ----------
    path
        The file.
    checksum
        ``"sha256:..."`` or ``"md5:..."``, in hexadecimal.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the checksum of the file is another one.

    Examples
    --------
    >>> import hashlib, pathlib, tempfile
    >>> from spike_core.data import verify
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "spikes.bin")
    ...     _ = path.write_bytes(b"spikes")
    ...     verify(path, f"sha256:{hashlib.sha256(b'spikes').hexdigest()}")
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    kind, _, digits = f"{checksum}".partition(":")
    sizes = {"md5": 32, "sha256": 64}
    if kind not in sizes or not fullmatch(rf"[0-9a-fA-F]{{{sizes[kind]}}}", digits):
        raise ValueError(
            "`checksum` must be 'sha256:' or 'md5:' and the hexadecimal digits, "
            f"got {checksum!r}"
        )
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != digits.lower():
        raise ValueError(
            f"{path} is not the file that was published, or not all of it: its {kind} "
            f"is {found}, not {digits.lower()}; download it again"
        )


@contextmanager
def staging(folder: str | os.PathLike[str]) -> Generator[Path]:
    """Give a folder inside `folder` that is gone afterwards, whatever happens."""
    folder = Path(folder).expanduser()
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        # On the same file system, so that moving out of it is a rename.
        with tempfile.TemporaryDirectory(prefix=".incomplete-", dir=folder) as stage:
            yield Path(stage)
    except BaseException:
        for path in made:
            with suppress(OSError):  # not empty: something else came in between
                path.rmdir()
        raise


def move_into(folder: str | os.PathLike[str], entries: list[Path]) -> list[Path]:
    """Move files and folders, after a look that none of them is there."""
    folder = Path(folder).expanduser()
    targets = [folder / entry.name for entry in entries]
    for target in targets:
        if target.exists():
            raise FileExistsError(f"{target} is already there; remove it first")
    for entry, target in zip(entries, targets, strict=True):
        entry.rename(target)
    return targets


def _extract(archive: Path, stage: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            file.extractall(stage)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as file:
            file.extractall(stage, filter="data")
    elif archive.suffix == ".gz":
        with gzip.open(archive) as file, open(stage / archive.stem, "wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
    else:
        raise ValueError(
            f"{archive} is not a whole .zip, .tar or .gz archive; download it again"
        )
