"""Read the file of an offline W&B run: 7 bytes, then LevelDB log frames of protocol-buffer records."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK = 32 * 1024


def records(path: Path) -> Iterator[Record]:
    content, position, parts = path.read_bytes(), 7, []
    while position + 7 <= len(content):
        if BLOCK - position % BLOCK < 7:  # a header is never split between blocks
            position += BLOCK - position % BLOCK
        _, length, kind = struct.unpack_from("<IHB", content, position)
        parts.append(content[position + 7 : position + 7 + length])
        position += 7 + length
        if kind in (1, 4):  # a complete record, or the last of several frames
            record = Record()
            record.ParseFromString(b"".join(parts))
            parts = []
            yield record


def read(run_folder: Path) -> dict[str, Any]:
    """Return the logged history (key → values in order), its rows, configuration, summary, run record, exit code."""
    (path,) = run_folder.glob("wandb/offline-run-*/run-*.wandb")
    history: dict[str, list] = {}
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    exit_code, run, rows = None, {}, []
    for record in records(path):
        if record.history.item:
            rows.append({"/".join(item.nested_key) or item.key for item in record.history.item})
        for item in record.summary.update:
            summary["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        for item in record.history.item:
            history.setdefault("/".join(item.nested_key) or item.key, []).append(json.loads(item.value_json))
        if record.HasField("run"):
            known = record.run
            run = {"id": known.run_id, "name": known.display_name, "group": known.run_group}
            run |= {"job_type": known.job_type, "tags": [*known.tags]}
        for item in [*record.run.config.update, *record.config.update]:
            config["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
        if record.HasField("exit"):
            exit_code = record.exit.exit_code
    return {
        "history": history, "rows": rows, "config": config, "summary": summary, "exit_code": exit_code, "run": run
    }  # fmt: skip
