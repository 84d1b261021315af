"""Download a public data set and check each file: `python -m nmt.data.download multi30k`."""

import hashlib
import os
import sys
import urllib.request
from http.client import HTTPException
from pathlib import Path

from nmt.errors import DataError
from nmt.system.files import atomic_write, to_path

# One commit of Multi30k's repository. The images are under the Flickr terms of use: non-commercial research and
# educational use. The text has no licence file.
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
DIGESTS = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.fr.gz": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}


def download(base: str, digests: dict[str, str], folder: Path) -> None:
    """Download the files of `digests` from `base`; keep those that are in `folder` with the right digest."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, digest in digests.items():
        path = folder / name
        if path.is_file() and _digest(path.read_bytes()) == digest:
            print(f"{path}: already there")
            continue
        try:
            with urllib.request.urlopen(base + name, timeout=60) as stream:
                content = stream.read()
        except (HTTPException, OSError) as error:
            raise DataError(
                f"{base}{name}: cannot be downloaded ({error}). Fix: give the same command again, with a connection"
            ) from error
        if _digest(content) != digest:
            raise DataError(f"{base}{name}: not the expected file (sha256 {_digest(content)} instead of {digest})")
        with atomic_write(path) as draft:
            draft.write_bytes(content)
        print(path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(arguments: list[str]) -> None:
    """Run the command line."""
    if arguments != ["multi30k"]:
        sys.exit("usage: python -m nmt.data.download multi30k   (writes to $NMT_DATA, or to data/ if it is not set)")
    try:
        download(MULTI30K, DIGESTS, to_path(os.environ.get("NMT_DATA") or "data") / "multi30k" / "raw")
    except (DataError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
