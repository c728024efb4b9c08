"""A client of Baton in plain Python: submit, follow, resume, approve, answer. No package is needed.

    python3 docs/examples/client.py http://127.0.0.1:7420 demo "Publish the release note"

It APPROVES EVERYTHING that the run asks for, to show how. A client of yours asks a person. Questions it asks on the terminal.
"""

import http.client
import json
import os
import sys
import time
import uuid
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

USAGE = "usage: python3 docs/examples/client.py URL AGENT MESSAGE      (URL: http://127.0.0.1:7420; BATON_TOKEN where it asks)"

TRANSIENT = {"message.delta", "reasoning.delta", "tool.progress", "stream.overflow", "stream.closing"}
ENDS = {"run.completed", "run.failed", "run.cancelled"}


class Refused(Exception):
    """Trying again would change nothing; the body of the answer, where there is one, says why."""


class Baton:
    def __init__(self, url, token=None):
        self.url = url.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method, path, body=None, headers=None):
        """One request, repeated while the server is away. Safe for a GET, and for a POST with an Idempotency-Key or that is
        safe by nature (cancel, input, resolve)."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {**self.headers, **(headers or {})}
        if data is not None:
            headers["Content-Type"] = "application/json"
        for attempt in range(10):
            try:
                with urlopen(Request(self.url + path, data, headers, method=method), timeout=70) as response:
                    return json.load(response)
            except HTTPError as error:
                if error.code not in (429, 503):
                    raise Refused(error.read().decode()) from None
                time.sleep(float(error.headers.get("Retry-After", 1)))
            except (URLError, ConnectionError, http.client.HTTPException):
                time.sleep(min(0.25 * 2**attempt, 2))
        raise Refused(f"{self.url} does not answer")

    def create_session(self, agent_id):
        key = {"Idempotency-Key": str(uuid.uuid4())}
        return self.call("POST", "/v1/sessions", {"agent_id": agent_id}, key)["id"]

    def submit(self, session_id, text):
        """With its key the same message may be sent any number of times, and is one run."""
        key = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"content": [{"type": "text", "text": text}]}
        return self.call("POST", f"/v1/sessions/{session_id}/messages", body, key)["run_id"]

    def follow(self, run_id):
        """Every stored event of the run exactly once and in order, over any number of connections; transient ones between."""
        cursor = 0
        while True:
            headers = {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": str(cursor)}
            try:
                # Heartbeats come every 15 s: a server that is silent for longer is gone.
                with urlopen(Request(f"{self.url}/v1/runs/{run_id}/events", headers=headers), timeout=45) as response:
                    if response.status == 204:
                        return  # nothing is missing, and nothing more will come
                    for event, data in frames(response):
                        if event not in TRANSIENT:
                            if data["sequence"] <= cursor:
                                continue
                            cursor = data["sequence"]
                        yield event, data
                        if event in ENDS:
                            return
            except HTTPError as error:
                if error.code not in (429, 503):
                    raise Refused(error.read().decode()) from None
            except (URLError, ConnectionError, TimeoutError, http.client.HTTPException):
                pass
            time.sleep(0.5)  # an end of the stream that is not the run's end means: resume


def frames(lines):
    event, data = "", []
    for line in lines:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            event = line[len("event: ") :]
        elif line.startswith("data: "):
            data.append(line[len("data: ") :])
        elif not line and data:
            yield event, json.loads("\n".join(data))
            event, data = "", []


def approve(baton, waiting):
    for approval_id in waiting.get("approval_ids", []):
        approval = baton.call("GET", f"/v1/approvals/{approval_id}")
        print("approving", approval["tool_name"], json.dumps(approval["arguments"]))
        baton.call("POST", f"/v1/approvals/{approval_id}/resolve", {"decision": "approve_once"})


def answer_question(baton, run_id, waiting):
    if "question_id" not in waiting:
        return  # answered meanwhile
    print(waiting["question"], *waiting.get("choices", []), sep="\n  ", flush=True)
    line = sys.stdin.readline()
    if not line:
        sys.exit(f"nobody is there to answer; the run waits: POST /v1/runs/{run_id}/input")
    body = {"content": [{"type": "text", "text": line.strip()}], "question_id": waiting["question_id"]}
    baton.call("POST", f"/v1/runs/{run_id}/input", body)


def main(url, agent_id, text):
    baton = Baton(url, os.environ.get("BATON_TOKEN"))
    run_id = baton.submit(baton.create_session(agent_id), text)
    answer = ""
    for event, data in baton.follow(run_id):
        if event in ("run.waiting_for_approval", "run.waiting_for_user"):
            # What is still open is the run's to say: the event may be an old one.
            waiting = baton.call("GET", f"/v1/runs/{run_id}")["waiting_for"] or {}
            approve(baton, waiting)
            answer_question(baton, run_id, waiting)
        elif event == "assistant.message.completed":
            answer = "".join(block["text"] for block in data["content"])
        elif event == "run.failed":
            sys.exit(data["failure"]["message"])
    print(answer)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(USAGE)
    if urlsplit(sys.argv[1]).scheme not in ("http", "https") or not urlsplit(sys.argv[1]).hostname:
        sys.exit(f"{sys.argv[1]} is no URL\n{USAGE}")
    try:
        main(*sys.argv[1:])
    except Refused as refused:
        sys.exit(str(refused))
