"""The page from dabke-timeline: served, and as one file."""

import http.client
import json
import os
import signal
import subprocess
import urllib.parse

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from conftest import BUILD

LIMIT_SECONDS = 60
TOOL = BUILD / "timeline_viewer/dabke-timeline"


def shown(browser, address):
    """Returns the number of events that the page at the address reports."""
    browser.get(address)
    WebDriverWait(browser, LIMIT_SECONDS).until(
        lambda each: each.execute_script(
            'const text = document.getElementById("message").textContent;'
            'return !text.startsWith("Reading") && (text || window.dabke?.lanes.drawMs.length)'
        )
    )
    assert browser.find_element(By.ID, "message").text == ""
    return browser.execute_script("return dabke.lanes.trace.count")


def events_of(trace):
    return len([each for each in json.loads(trace.read_text())["traceEvents"] if each["ph"] in "Xi"])


def errors_of(browser):
    return [
        entry["message"]
        for entry in browser.get_log("browser")
        if entry["level"] == "SEVERE" and "favicon" not in entry["message"]
    ]


@pytest.fixture
def served(trace):
    process = subprocess.Popen([TOOL, "view", "--no-open", trace], stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_SECONDS) == 0


def test_view_serves_the_trace_and_its_report(browser, served, trace):
    browser.get_log("browser")
    assert shown(browser, served) == events_of(trace)
    assert browser.find_element(By.ID, "findings").text.strip() != ""
    assert "trace.json" in browser.find_element(By.ID, "name").text
    assert errors_of(browser) == []


def test_view_answers_this_host_under_its_path_alone(served):
    parts = urllib.parse.urlsplit(served)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.path) == 2 + 32

    def status(path, method="GET", **headers):
        connection = http.client.HTTPConnection(parts.netloc, timeout=LIMIT_SECONDS)
        connection.request(method, path, headers=headers)
        return connection.getresponse().status

    assert status(parts.path) == 200
    assert status(parts.path + "trace/0") == 200
    assert status(parts.path + "reports") == 200
    assert status(parts.path + "trace/1") == 404
    assert status(parts.path, Host=f"localhost:{parts.port}") == 200
    assert status(parts.path, Host="evil.example") == 403
    assert status(parts.path, Host=f"evil.example:{parts.port}") == 403
    assert status("/") == 404
    assert status("/" + "0" * 32 + "/trace/0") == 404
    assert status(parts.path + "../../etc/passwd") == 404
    assert status(parts.path, method="POST") == 405
    assert status(parts.path, X="x" * 20_000) == 431


@pytest.mark.parametrize("name", ["plain", "records"])
def test_an_exported_page_needs_nothing_else(browser, trace, tmp_path, name):
    page = tmp_path / f"{name}.html"
    source = trace if name == "plain" else f"{trace}.rank0"
    subprocess.run([TOOL, "export", source, "-o", page], check=True, capture_output=True)
    browser.get_log("browser")
    assert shown(browser, page.as_uri()) == events_of(trace)
    assert browser.find_element(By.ID, "findings").text.strip() != ""
    assert errors_of(browser) == []
    assert (
        browser.execute_script(
            'return performance.getEntriesByType("resource")'
            '.filter(each => each.name.startsWith("http")).length'
        )
        == 0
    )


def job(path, late_us):
    """A merged trace of two ranks, of which rank 1 is late in each of ten steps."""
    events = []
    for rank in range(2):
        events += [
            {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}},
            {"name": "thread_name", "ph": "M", "pid": rank, "tid": 2, "args": {"name": "lane"}},
            {"name": "thread_name", "ph": "M", "pid": rank, "tid": 100001, "args": {"name": "gradient"}},
        ]
    for step in range(10):
        begin, batch = (
            step * (late_us + 5000),
            {"order": step + 1, "bytes": 8, "batch": f"{step + 1}.0", "last_rank": 1, "last_by_us": late_us},
        )
        for rank in range(2):
            ready = late_us if rank == 1 else 0
            for tid, name, at, dur, args in (
                (2, "ALLREDUCE", late_us + 10, 1000, batch),
                (2, "RUN", late_us + 10, 1000, {}),
                (100001, "NEGOTIATE_ALLREDUCE", ready, late_us + 10 - ready, {"order": step + 1, "bytes": 8}),
                (100001, "ALLREDUCE", late_us + 10, 1000, {**batch, "dtype": "float32"}),
            ):
                events.append(
                    {
                        "name": name,
                        "ph": "X",
                        "pid": rank,
                        "tid": tid,
                        "ts": begin + at,
                        "dur": dur,
                        "args": args,
                    }
                )
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def profile(path, rank, begin_us, **members):
    """Writes one rank's trace as PyTorch's profiler does: every rank's process has the same number."""
    events = [{"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "python"}}]
    for step in range(5):
        at = begin_us + step * 1000
        events += [
            {
                "name": f"ProfilerStep#{step}",
                "cat": "user_annotation",
                "ph": "X",
                "pid": 7,
                "tid": 1,
                "ts": at,
                "dur": 1000,
            },
            {"name": "aten::mm", "cat": "cpu_op", "ph": "X", "pid": 7, "tid": 1, "ts": at, "dur": 400},
            {
                "name": "gloo:all_reduce",
                "cat": "user_annotation",
                "ph": "X",
                "pid": 7,
                "tid": 2,
                "ts": at + 500,
                "dur": 300,
            },
        ]
    path.write_text(json.dumps({"distributedInfo": {"rank": rank}, **members, "traceEvents": events}))
    return path


HEADS = "return [...dabke.lanes.layout.groups].map(each => each.key)"
TIMES = (
    "const {trace} = dabke.lanes; return trace.files.map((_, i) =>"
    " [...trace.begin].filter((_, k) => trace.rows[trace.row[k]].file === i))"
)


@pytest.fixture(params=["view", "export"])
def page_of(request, tmp_path):
    """Returns a function that returns the address of the page that a command makes of several traces."""
    processes = []

    def made(*traces):
        if request.param == "export":
            page = tmp_path / "page.html"
            subprocess.run([TOOL, "export", *traces, "-o", page], check=True, capture_output=True)
            return page.as_uri()
        processes.append(
            subprocess.Popen([TOOL, "view", "--no-open", *traces], stdout=subprocess.PIPE, text=True)
        )
        return processes[-1].stdout.readline().strip()

    yield made
    for process in processes:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0


def test_two_jobs_on_one_page_are_told_apart_by_their_names(browser, page_of, tmp_path):
    before, after = job(tmp_path / "before.json", 1000), job(tmp_path / "after.json", 9000)
    browser.get_log("browser")
    assert shown(browser, page_of(before, after)) == events_of(before) + events_of(after) == 160
    assert browser.execute_script(HEADS) == [
        "before · rank 0",
        "before · rank 1",
        "after · rank 0",
        "after · rank 1",
    ]
    heads = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#findings h2")]
    assert heads == ["Findings in before", "Findings in after"]
    assert browser.find_element(By.CSS_SELECTOR, "#comparison h2").text == "after compared with before"
    assert "before.json, after.json" in browser.find_element(By.ID, "name").text
    late = browser.execute_script("return [...dabke.lanes.late]")
    assert late == [["before · rank 1", "late 1.00 ms"], ["after · rank 1", "late 9.00 ms"]]
    # The second job's first step has the same order as the first job's, which must not appear here.
    browser.execute_script("""const {lanes} = dabke, {trace} = lanes;
        lanes.select([...trace.begin.keys()].find(i => trace.rows[trace.row[i]].file === 1 && trace.order[i] === 1 && trace.lastBy[i] > 0))""")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#selection table tr")) == 1 + 2
    assert "9.00 ms" in browser.find_element(By.CSS_SELECTOR, "#selection table").text
    # The findings of the second job's report lead to the second job's ranks.
    browser.execute_script(
        "dabke.lanes.clear();"
        ' document.querySelectorAll("#findings > div")[1].querySelector("button.finding:enabled").click()'
    )
    assert (
        browser.execute_script(
            "const {trace, selected} = dabke.lanes;"
            " return selected < 0 ? -1 : trace.rows[trace.row[selected]].file"
        )
        == 1
    )
    assert errors_of(browser) == []


def test_the_profiles_of_all_ranks_are_one_job_on_one_page(browser, page_of, tmp_path):
    traces = [profile(tmp_path / f"rank{rank}.json", rank, 5_000_000 + 100 * rank) for rank in range(3)]
    assert shown(browser, page_of(*traces)) == sum(map(events_of, traces))
    assert browser.execute_script(HEADS) == [f"rank{rank} · python" for rank in range(3)]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#findings h2")) == 1
    assert [min(times) for times in browser.execute_script(TIMES)] == [
        5_000_000 + 100 * rank for rank in range(3)
    ]
    assert browser.execute_script("return dabke.steps.steps.map(each => each.begin)") == [
        5_000_000 + 1000 * step for step in range(5)
    ]


def test_a_profile_is_placed_beside_the_trace_by_the_time_of_day(browser, page_of, tmp_path):
    trace, base_ns = job(tmp_path / "trace.json", 1000), 1_790_000_000_000_000_000
    content = json.loads(trace.read_text())
    trace.write_text(json.dumps({"baseTimeNanoseconds": base_ns, **content}))
    # 2 ms after the trace's zero
    new = profile(tmp_path / "new.json", 0, 7_002_000, baseTimeNanoseconds=base_ns - 7_000_000_000)
    old = profile(tmp_path / "old.json", 1, base_ns / 1000 + 2000)
    assert shown(browser, page_of(trace, new, old)) == sum(map(events_of, (trace, new, old)))
    begins = [min(times) for times in browser.execute_script(TIMES)]
    # The time of day in a double is exact to 0.25 us.
    assert begins == pytest.approx([0, 2000, 2000], abs=1)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#findings h2")) == 3


def test_traces_without_a_common_moment_begin_together(browser, page_of, tmp_path):
    first, second = (
        profile(tmp_path / "monday.json", 0, 5_000_000),
        profile(tmp_path / "tuesday.json", 0, 86_400_000_000),
    )
    assert shown(browser, page_of(first, second)) == events_of(first) + events_of(second)
    assert [min(times) for times in browser.execute_script(TIMES)] == [5_000_000, 5_000_000]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#findings h2")) == 2


def test_files_of_one_name_are_told_apart_by_their_paths(browser, page_of, tmp_path):
    first, second = job(tmp_path / "a/trace.json", 1000), job(tmp_path / "b/trace.json", 2000)
    assert shown(browser, page_of(first, second)) == 160
    assert [head.split(" · ")[0] for head in browser.execute_script(HEADS)] == 2 * [str(first)[:-5]] + 2 * [
        str(second)[:-5]
    ]


@pytest.mark.parametrize("command", ["view", "export", "report"])
def test_of_several_traces_the_one_that_cannot_be_read_is_named(tmp_path, command):
    good, bad = job(tmp_path / "good.json", 1000), tmp_path / "bad.json"
    bad.write_text('{"traceEvents": []}')
    for path in (bad, tmp_path / "absent.json"):
        ended = subprocess.run(
            [TOOL, command, good, path], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
        assert ended.returncode == 1
        assert f"'{path}'" in ended.stderr
        assert "good.json" not in ended.stderr
    assert not (tmp_path / "good.html").exists()


ATTEMPTS = """
const done = arguments[0], refused = [];
document.addEventListener('securitypolicyviolation', event => refused.push(event.effectiveDirective));
const add = (tag, attributes) => document.body.append(Object.assign(document.createElement(tag), attributes));
add('script', {textContent: 'window.ran = 1'});
add('img', {src: 'http://127.0.0.1:9/x.png'});
add('iframe', {src: 'http://127.0.0.1:9/'});
add('div', {innerHTML: '<b onclick="window.ran = 1">x</b>'});
document.querySelector('b').click();
// Some are refused by another process, which may take its time.
const until = performance.now() + 60_000;
const look = () => refused.length < 5 && performance.now() < until ? setTimeout(look, 20) :
  setTimeout(() => done([window.ran ?? null, refused.sort()]), 200);
fetch('http://127.0.0.1:9/').catch(() => {}).finally(look);
"""


@pytest.mark.parametrize("way", ["view", "export"])
def test_whatever_gets_into_the_page_runs_no_script_and_asks_no_other_host(
    browser, served, trace, tmp_path, way
):
    address = served
    if way == "export":
        page = tmp_path / "page.html"
        subprocess.run([TOOL, "export", trace, "-o", page], check=True, capture_output=True)
        address = page.as_uri()
    assert shown(browser, address) == events_of(trace)
    ran, refused = browser.execute_async_script(ATTEMPTS)
    assert ran is None
    assert refused == ["connect-src", "frame-src", "img-src", "script-src-attr", "script-src-elem"]
    browser.get_log("browser")


def test_names_of_an_exported_trace_stay_names(browser, tmp_path):
    hostile = '</script><script>window.ran = 1</script><!--<img src=x onerror="window.ran=1">'
    trace = tmp_path / 'a"><b>.json'
    trace.write_text(
        json.dumps(
            {
                "traceEvents": [
                    {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "rank 0"}},
                    {"name": "thread_name", "ph": "M", "pid": 0, "tid": 100001, "args": {"name": hostile}},
                    *(
                        {
                            "name": kind,
                            "ph": "X",
                            "pid": 0,
                            "tid": 100001,
                            "ts": 10 * step + at,
                            "dur": 4,
                            "args": {
                                "order": step + 1,
                                "bytes": 8,
                                **({} if kind.startswith("N") else {"batch": f"{step + 1}.0"}),
                            },
                        }
                        for step in range(5)
                        for at, kind in ((0, "NEGOTIATE_ALLREDUCE"), (5, "ALLREDUCE"))
                    ),
                ]
            }
        )
    )
    page = tmp_path / "page.html"
    subprocess.run([TOOL, "export", trace, "-o", page], check=True, capture_output=True)
    assert (
        hostile
        in json.loads(
            subprocess.run([TOOL, "report", "--json", trace], check=True, capture_output=True).stdout
        )["tensors"][0]["name"]
    )
    assert shown(browser, page.as_uri()) == 10
    assert browser.execute_script("return window.ran") is None
    os.remove(trace)
