#!/usr/bin/env python3
"""Writes tests/golden/pack: a small pack with every kind of entry. Takes the path of millrace."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIME_NS = 1_700_000_000_123_456_789


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Below a fixed name, because the catalogue remembers it.
        source = Path("/tmp/millrace-golden-source")
        shutil.rmtree(source, ignore_errors=True)
        (source / "a").mkdir(parents=True)
        (source / "empty").mkdir()
        (source / "a" / "text").write_text("the same line\n" * 100)
        (source / "a" / "bytes").write_bytes(bytes(range(256)))
        (source / "nothing").touch()
        (source / "val").write_text("broadcast")
        (source / "a" / "link").symlink_to("../val")
        for path in (*source.rglob("*"), source):
            if not path.is_symlink():
                os.chmod(path, 0o755 if path.is_dir() else 0o644)
            os.utime(path, ns=(TIME_NS, TIME_NS), follow_symlinks=False)
        packed = Path(folder) / "pack"
        subprocess.run([sys.argv[1], "store", "pack", source, "-o", packed, "--partitions", "2", "--broadcast", "val"],
                       check=True)
        shutil.rmtree(HERE / "pack", ignore_errors=True)
        shutil.copytree(packed, HERE / "pack")
        shutil.rmtree(source)


main()
