"""A Hugging Face hub on loopback with the few answers that downloading and uploading models need."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of-this-test"
Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """The hub; `models` holds the files of each model, and `private` the names of models that need the token."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.models: dict[str, Files] = {}
        self.private: set[str] = set()
        self.requests: list[str] = []

    def commit_of(self, name: str) -> str:
        content = b"".join(path.encode() + data for path, data in sorted(self.models[name].items()))
        return hashlib.sha1(content).hexdigest()


@contextmanager
def run_hub() -> Iterator[Hub]:
    with Hub() as hub:
        Thread(target=hub.serve_forever, args=(0.05,), daemon=True).start()
        yield hub
        hub.shutdown()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.requests.append(f"{self.command} {self.path}")
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        name = "/".join(parts[2:4] if parts[:2] == ["api", "models"] else parts[:2])
        if name not in self.server.models or (name in self.server.private and not self._has_token()):
            return self._send(404 if self._has_token() else 401, {}, code="RepoNotFound")
        commit, files = self.server.commit_of(name), self.server.models[name]
        if parts[0] == "api" and parts[4:5] == ["tree"]:
            entries = [
                {"type": "file", "path": path, "size": len(data), "oid": _digest(data)} for path, data in files.items()
            ]
            return self._send(200, entries)
        revision = parts[5] if parts[0] == "api" and len(parts) > 5 else parts[3] if parts[0] != "api" else "main"
        if revision not in (commit, "main", "v1"):
            return self._send(404, {}, code="RevisionNotFound")
        if parts[0] == "api":
            return self._send(200, {"_id": "1", "id": name, "sha": commit, "siblings": []})
        data = files["/".join(parts[4:])]
        return self._send(200, data, ETag=f'"{_digest(data)}"', **{"X-Repo-Commit": commit})

    def do_POST(self):
        self.server.requests.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._has_token():
            return self._send(401, {"error": "Invalid username or password."})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.server.models.setdefault(name, {})
            self.server.private |= {name} if asked.get("private") or asked.get("visibility") == "private" else set()
            return self._send(200, {"url": f"{self.server.endpoint}/{name}", "id": name})
        if self.path == "/api/validate-yaml":
            return self._send(200, {"errors": [], "warnings": []})
        name = "/".join(self.path.split("/")[3:5])
        if "/preupload/" in self.path:
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            return self._send(200, {"files": files})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.server.models[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        commit = self.server.commit_of(name)
        address = f"{self.server.endpoint}/{name}/commit/{commit}"
        return self._send(200, {"success": True, "commitOid": commit, "commitUrl": address})

    def _has_token(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _send(self, status: int, content: object, code: str | None = None, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        headers |= {"Content-Length": str(len(data))} | ({"X-Error-Code": code} if code else {})
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
