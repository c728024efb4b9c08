"""Plays a client of the document against a real server: `agentctl dev`, with its own database, API and worker, which takes tokens.

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
ISSUER, AUDIENCE, SECRET = "https://issuer.test", "baton", "a secret of the client's, and long enough"


def main() -> int:
    agentctl = pathlib.Path(sys.argv[1]).resolve()
    seconds = sys.argv[2] if len(sys.argv) > 2 else str(SECONDS)
    with tempfile.TemporaryDirectory(prefix="baton-schemathesis-") as folder:
        os.chmod(folder, 0o755)  # the database's user passes through it
        ready = pathlib.Path(folder, "ready.json")
        secret = pathlib.Path(folder, "secret")
        secret.write_text(SECRET)
        keys = f'[{{algorithm="HS256",secret_file="{secret}"}}]'
        auth = {"MODE": "jwt", "ISSUER": ISSUER, "AUDIENCE": AUDIENCE, "KEYS": keys}
        environment = os.environ | {f"BATON_AUTH__{name}": value for name, value in auth.items()}
        # Priced, or a limit of cost would be refused, which the document cannot say of a schema.
        environment |= {"BATON_MODELS__PRICED__PROVIDER": "scripted", "BATON_MODELS__PRICED__PRICES": "{input=1,output=2}"}
        agents = pathlib.Path(folder, "agents")
        agents.mkdir()
        demo = HERE.parent.parent.joinpath("agents", "demo.toml").read_text()
        agents.joinpath("demo.toml").write_text(demo.replace('model = "scripted"', 'model = "priced"'))
        command = [agentctl, "--data-dir", pathlib.Path(folder, "data"), "dev", "--listen", "127.0.0.1:0", "--ready-file", ready,
                   "--agents", agents]
        server = subprocess.Popen(command, cwd=HERE.parent.parent, env=environment, stdout=subprocess.DEVNULL)
        try:
            url = json.loads(eventually(lambda: ready.exists() and ready.read_text(), server))["url"]
            client = requests.Session()
            client.headers["Authorization"] = f"Bearer {token(agentctl, secret)}"
            return check(client, url, folder, seconds)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def token(agentctl: pathlib.Path, secret: pathlib.Path) -> str:
    """Of somebody who may do everything."""
    command = [agentctl, "token", "mint", "--secret-file", secret, "--issuer", ISSUER, "--audience", AUDIENCE, "--tenant", "acme",
               "--principal", "ada", "--role", "operator", "--role", "member", "--role", "approver", "--scope", "demo.write"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def check(client: requests.Session, url: str, folder: str, seconds: str) -> int:
    """The exit code of schemathesis; 0 where nothing that it asked for was answered otherwise than documented."""
    document = client.get(f"{url}/openapi.json", timeout=10)
    file = pathlib.Path(folder, "openapi.json")
    file.write_bytes(document.content)
    operations = sum(len(methods) for methods in document.json()["paths"].values())
    settings = (HERE / "schemathesis.toml").read_text()
    for name, value in {
        "ARTIFACT_ID": written_artifact(client, url),
        "EXAMPLES": str(-(-EXAMPLES // operations)),
        "TOKEN": client.headers["Authorization"].removeprefix("Bearer "),
    }.items():
        settings = settings.replace(name, value)
    config = pathlib.Path(folder, "schemathesis.toml")
    config.write_text(settings)
    command = [
        pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", config,
        "run", file, "--url", url, "--seed", SEED, "--max-time", seconds, "--no-color",
    ]
    return subprocess.run(command, cwd=folder, timeout=SECONDS_MAX).returncode


def written_artifact(client: requests.Session, url: str) -> str:
    """No operation lists artifacts: a run writes one, and its events name it."""
    session = client.post(f"{url}/v1/sessions", json={"agent_id": "demo"}, timeout=10).json()
    body = {"content": [{"type": "text", "text": "Write a note: for whoever reads the document"}]}
    run = client.post(f"{url}/v1/sessions/{session['id']}/messages", json=body, timeout=10).json()
    client.get(f"{url}/v1/runs/{run['run_id']}?wait=60", timeout=70)
    headers = {"Accept": "application/json"}
    page = client.get(f"{url}/v1/runs/{run['run_id']}/events", headers=headers, timeout=10).json()
    return next(event["artifact_id"] for event in page["items"] if event["type"] == "artifact.created")


def eventually(found, server: subprocess.Popen):
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end and server.poll() is None:
        if value := found():
            return value
        time.sleep(0.1)
    raise SystemExit("the server did not come so far")


if __name__ == "__main__":
    sys.exit(main())
