"""Plays a client of the document against a real server: `agentctl dev`, with its own database, API and worker.

Usage: run.py AGENTCTL [SECONDS]. To be run with the Python that has schemathesis.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import requests

HERE = pathlib.Path(__file__).parent
SEED = "1"
# For all operations together. What is left of the time goes to more of them, and to scenarios that follow links.
EXAMPLES = 2000
SECONDS = 100
SECONDS_MAX = 240
START_SECONDS_MAX = 60


def main() -> int:
    agentctl = pathlib.Path(sys.argv[1]).resolve()
    seconds = sys.argv[2] if len(sys.argv) > 2 else str(SECONDS)
    with tempfile.TemporaryDirectory(prefix="baton-schemathesis-") as folder:
        os.chmod(folder, 0o755)  # the database's user passes through it
        ready = pathlib.Path(folder, "ready.json")
        command = [agentctl, "--data-dir", pathlib.Path(folder, "data"), "dev", "--listen", "127.0.0.1:0", "--ready-file", ready]
        server = subprocess.Popen(command, cwd=HERE.parent.parent, stdout=subprocess.DEVNULL)
        try:
            url = json.loads(eventually(lambda: ready.exists() and ready.read_text(), server))["url"]
            return check(url, folder, seconds, written_artifact(url, server))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def check(url: str, folder: str, seconds: str, artifact_id: str) -> int:
    """The exit code of schemathesis; 0 where nothing that it asked for was answered otherwise than documented."""
    operations = sum(len(methods) for methods in requests.get(f"{url}/openapi.json", timeout=10).json()["paths"].values())
    config = pathlib.Path(folder, "schemathesis.toml")
    settings = (HERE / "schemathesis.toml").read_text().replace("ARTIFACT_ID", artifact_id)
    config.write_text(settings.replace("EXAMPLES", str(-(-EXAMPLES // operations))))
    command = [
        pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", config,
        "run", f"{url}/openapi.json", "--seed", SEED, "--max-time", seconds, "--no-color",
    ]
    return subprocess.run(command, cwd=folder, timeout=SECONDS_MAX).returncode


def written_artifact(url: str, server: subprocess.Popen) -> str:
    """No operation lists artifacts: a run writes one, and its events name it."""
    session = requests.post(f"{url}/v1/sessions", json={"agent_id": "demo"}, timeout=10).json()
    body = {"content": [{"type": "text", "text": "Write a note: for whoever reads the document"}]}
    run = requests.post(f"{url}/v1/sessions/{session['id']}/messages", json=body, timeout=10).json()

    def found() -> str | None:
        headers = {"Accept": "application/json"}
        page = requests.get(f"{url}/v1/runs/{run['run_id']}/events", headers=headers, timeout=10).json()
        return next((event["artifact_id"] for event in page["items"] if event["type"] == "artifact.created"), None)

    return eventually(found, server)


def eventually(found, server: subprocess.Popen):
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end and server.poll() is None:
        if value := found():
            return value
        time.sleep(0.1)
    raise SystemExit("the server did not come so far")


if __name__ == "__main__":
    sys.exit(main())
