"""A browser, the page on a server of this process, and a trace that a job of four ranks has recorded."""

import functools
import http.server
import json
import os
import statistics
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DABKE_BUILD", ROOT / "build")).resolve()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def address():
    serve = functools.partial(Quiet, directory=ROOT / "timeline_viewer/page")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


def start(options, scratch, tries=3):
    """Starts a browser. On a busy machine, it may not be up within the time limit of its driver."""
    try:
        service = Service("/usr/bin/chromedriver", env={**os.environ, "TMPDIR": scratch})
        return webdriver.Chrome(service=service, options=options)
    except WebDriverException:
        if tries == 1:
            raise
        return start(options, scratch, tries - 1)


@pytest.fixture(scope="session")
def browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1440,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # The browser and its driver leave folders behind.
    with tempfile.TemporaryDirectory(prefix="dabke-browser-", ignore_cleanup_errors=True) as scratch:
        driver = start(options, scratch)
        driver.set_script_timeout(180)
        yield driver
        driver.quit()


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    subprocess.run(
        [BUILD / "launcher/dabkerun", "-np", "4", BUILD / "examples/digits", "--epochs", "1"],
        check=True,
        timeout=120,
        env={**os.environ, "DABKE_TIMELINE": str(path)},
        capture_output=True,
    )
    return path


@pytest.fixture(scope="session")
def slow_trace(tmp_path_factory):
    """The trace of a job in which rank 2 of four computes 30 ms longer in each of 40 steps. The job is
    repeated until no delay of a busy machine hides that in the trace."""
    path = tmp_path_factory.mktemp("slow") / "trace.json"
    for _ in range(10):
        subprocess.run(
            [
                BUILD / "launcher/dabkerun",
                "-np",
                "4",
                BUILD / "tests/multiproc/rank_worker",
                "slow-rank-2-40",
            ],
            check=True,
            timeout=120,
            env={**os.environ, "DABKE_TIMELINE": str(path)},
            capture_output=True,
        )
        recorded = json.loads(path.read_text())
        begin = recorded["otherData"]["report"]["steps"][0]["start_us"]
        batches = [
            each["args"]
            for each in recorded["traceEvents"]
            if each["pid"] == 0 and "last_rank" in each.get("args", {}) and each["ts"] > begin
        ]
        late_us, others_us = (
            [each["last_by_us"] for each in batches if (each["last_rank"] == 2) == is_late]
            for is_late in (True, False)
        )
        if (
            late_us
            and statistics.median(late_us) > 28e3
            and sum(late_us) < 1.5 * len(late_us) * statistics.median(late_us)
            and sum(others_us) < 0.05 * sum(late_us)
        ):
            break
    return path


@pytest.fixture
def late_job(tmp_path):
    """Returns a function that records a job with one late rank in each step: the same rank, or each in turn.
    The function returns the trace and the late rank's own report. If the ranks report that a busy machine
    hides the lateness, the job runs again with a longer one."""

    def record(ranks, ms, late=None):
        path = tmp_path / "trace.json"
        for turn in range(8):
            environment = {
                "DABKE_TIMELINE": str(path),
                "DABKE_TEST_LATE_MS": str(min(ms * 2**turn, 320)),
                **({} if late is None else {"DABKE_TEST_LATE_RANK": str(late)}),
            }
            said = subprocess.run(
                [
                    BUILD / "launcher/dabkerun",
                    "-np",
                    str(ranks),
                    BUILD / "tests/multiproc/cpp_worker",
                    "late-rank",
                ],
                check=True,
                timeout=120,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
            ).stdout
            if "the lateness is clear" in said:
                break
        return path, said

    return record


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    """The folder for screenshots; with DABKE_UPDATE_SCREENSHOTS=1, the documentation's."""
    if os.environ.get("DABKE_UPDATE_SCREENSHOTS") != "1":
        return tmp_path_factory.mktemp("screenshots")
    folder = ROOT / "docs/timeline"
    folder.mkdir(exist_ok=True)
    return folder
