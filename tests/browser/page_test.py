"""The timeline's page with files, in a real browser."""

import gzip
import json
import math
import re
import statistics
from random import Random

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

LIMIT_SECONDS = 60
# The batch with the median wait, of the batches for which rank 2 was waited for. A busy machine makes some
# waits longer.
USUAL_BATCH = (
    "(trace => [...trace.lastRank.keys()].filter(i => trace.lastRank[i] === 2)"
    ".sort((a, b) => trace.lastBy[a] - trace.lastBy[b])"
    ".at(Math.floor(trace.lastRank.filter(rank => rank === 2).length / 2)))(dabke.lanes.trace)"
)


@pytest.fixture
def page(browser, address):
    browser.get(address)
    WebDriverWait(browser, LIMIT_SECONDS).until(lambda each: each.execute_script("return !!window.dabke"))
    return browser


def message(page):
    return page.find_element(By.ID, "message").text


def load(page, path):
    """Returns once the trace is drawn, or the page shows the reason why not."""
    page.execute_script("window.before = dabke.lanes.trace")
    page.find_element(By.ID, "file").send_keys(str(path))
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.execute_script(
            'const text = document.getElementById("message").textContent, {lanes} = dabke;'
            'return !text.startsWith("Reading") && (text || lanes.trace !== before && !lanes.pending)'
        )
    )


def view(page):
    return page.execute_script("return [dabke.lanes.begin, dabke.lanes.end]")


def whole(name, begin, duration, **args):
    return {"ph": "X", "name": name, "pid": 0, "tid": 1, "ts": begin, "dur": duration, "args": args}


def test_an_empty_page_says_how_a_trace_is_recorded(page):
    assert "--timeline-filename" in page.find_element(By.ID, "empty").text
    assert not page.find_element(By.ID, "search").is_displayed()  # the page has nothing to search
    assert (
        page.find_element(By.ID, "file").get_attribute("aria-label")
        == "Open a trace, or several side by side"
    )


def test_a_recorded_trace_shows_every_rank(page, trace):
    load(page, trace)
    assert message(page) == ""
    heads = page.execute_script("return dabke.lanes.rows.map(row => row.head).filter(Boolean)")
    assert heads == ["rank 0", "rank 1", "rank 2", "rank 3"]
    events = [each for each in json.loads(trace.read_text())["traceEvents"] if each["ph"] in "Xi"]
    assert page.execute_script("return dabke.lanes.trace.count") == len(events)


def test_a_compressed_trace_is_the_same(page, trace, tmp_path):
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    load(page, trace)
    count = page.execute_script("return dabke.lanes.trace.count")
    page.refresh()
    load(page, packed)
    assert page.execute_script("return dabke.lanes.trace.count") == count


def test_w_zooms_in_and_d_moves_on(page, trace):
    load(page, trace)
    lanes = page.find_element(By.ID, "lanes")
    begin, end = view(page)
    lanes.send_keys("w")
    zoomed = view(page)
    assert zoomed[1] - zoomed[0] == pytest.approx(0.8 * (end - begin))
    lanes.send_keys("d")
    assert view(page)[0] > zoomed[0]
    lanes.send_keys("0")
    assert view(page) == pytest.approx([begin, end])


def test_keys_work_before_anything_has_been_clicked_and_not_in_the_search(page, trace):
    load(page, trace)
    page.execute_script("document.activeElement.blur()")
    begin, end = view(page)
    ActionChains(page).send_keys("w").perform()
    zoomed = view(page)
    assert zoomed[1] - zoomed[0] == pytest.approx(0.8 * (end - begin))
    page.find_element(By.ID, "search").send_keys("was")
    assert view(page) == zoomed


def test_a_moves_back_and_s_zooms_out(page, trace):
    load(page, trace)
    lanes = page.find_element(By.ID, "lanes")
    begin, end = view(page)
    lanes.send_keys("a")
    assert view(page)[0] < begin
    lanes.send_keys("s")
    assert view(page)[1] - view(page)[0] == pytest.approx(1.25 * (end - begin))


def test_the_wheel_zooms_around_the_pointer(page, trace):
    load(page, trace)
    lanes = page.find_element(By.ID, "lanes")
    begin, end = view(page)
    ActionChains(page).scroll_from_origin(ScrollOrigin.from_element(lanes), 0, -200).perform()
    zoomed = view(page)
    assert begin < zoomed[0] and zoomed[1] < end


def test_dragging_moves_what_is_shown_with_the_pointer(page, trace):
    load(page, trace)
    begin, end = view(page)
    ActionChains(page).move_to_element(page.find_element(By.ID, "lanes")).click_and_hold().move_by_offset(
        -100, 0
    ).release().perform()
    moved = view(page)
    assert moved[0] > begin
    assert moved[1] - moved[0] == pytest.approx(end - begin)


def test_dragging_with_shift_measures_and_tells_what_is_in_the_range(page, tmp_path):
    path = tmp_path / "measure.json"
    path.write_text(json.dumps([whole("first", 0, 400), whole("second", 500, 100), whole("third", 900, 100)]))
    load(page, path)
    lanes = page.find_element(By.ID, "lanes")
    (
        ActionChains(page)
        .move_to_element(lanes)
        .key_down(Keys.SHIFT)
        .click_and_hold()
        .move_by_offset(200, 0)
        .release()
        .key_up(Keys.SHIFT)
        .perform()
    )
    begin, end = page.execute_script("return [dabke.lanes.measured.begin, dabke.lanes.measured.end]")
    scale = page.execute_script("return dabke.lanes.scale")
    assert end - begin == pytest.approx(200 / scale, rel=0.02)
    assert view(page) == pytest.approx([0, 1000])  # the view has not moved
    lines = [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in page.find_elements(By.CSS_SELECTOR, "#selection tr")
    ][1:]
    inside = {
        name: min(to, end) - max(at, begin)
        for name, at, to in (("first", 0, 400), ("second", 500, 600), ("third", 900, 1000))
    }
    assert [name for name, *_ in lines] == sorted(
        (name for name, us in inside.items() if us > 0), key=lambda name: -inside[name]
    )
    assert [count for _, count, _ in lines] == ["1"] * len(lines)
    lanes.send_keys(Keys.ESCAPE)
    assert page.execute_script("return dabke.lanes.measured") is None


def test_m_measures_what_is_selected(page, trace):
    load(page, trace)
    page.execute_script("dabke.lanes.select(7)")
    page.find_element(By.ID, "lanes").send_keys("m")
    assert page.execute_script(
        "const l = dabke.lanes;"
        " return l.measured.begin === l.trace.begin[7] && l.measured.end === l.trace.end[7]"
    )


def test_the_address_leads_back_to_what_was_shown(page, browser, address, trace):
    load(page, trace)
    lanes = page.find_element(By.ID, "lanes")
    lanes.send_keys("jj", Keys.ENTER)
    page.find_element(By.CSS_SELECTOR, "#grouping option[value=tensor]").click()
    page.find_element(By.ID, "search").send_keys("layer1")
    lanes.send_keys("wwwd")
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: "by=tensor" in each.current_url and "q=layer1" in each.current_url
    )
    shown = view(page)
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: (
            f"t={shown[0] - each.execute_script('return dabke.lanes.trace.first'):.3f}" in each.current_url
        )
    )
    link = page.current_url
    browser.get("about:blank")
    browser.get(link)
    load(browser, trace)
    assert view(browser) == pytest.approx(shown, abs=0.01)
    assert browser.find_element(By.ID, "search").get_attribute("value") == "layer1"
    assert browser.find_element(By.ID, "grouping").get_attribute("value") == "tensor"
    browser.find_element(By.CSS_SELECTOR, "#grouping option[value=rank]").click()
    assert browser.execute_script(
        "return dabke.lanes.rows.filter(row => row.isOpen).map(row => row.group)"
    ) == ["rank 1"]


def test_lanes_by_tensor_put_all_ranks_of_a_tensor_below_each_other(page, trace):
    load(page, trace)
    page.find_element(By.CSS_SELECTOR, "#grouping option[value=tensor]").click()
    rows = page.execute_script("return dabke.lanes.rows.map(row => [row.head, row.label])")
    first = 1 + [head for head, _ in rows].index("tensor layer1.weights.gradients")
    assert [label for _, label in rows[first : first + 4]] == ["rank 0", "rank 1", "rank 2", "rank 3"]


def test_a_bar_of_the_strip_leads_to_its_step(page, tmp_path):
    path = tmp_path / "steps.json"
    names = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "steps"}},
    ]
    path.write_text(json.dumps(names + [whole(f"step {step}", 100 * step, 100) for step in range(4)]))
    load(page, path)
    strip = page.find_element(By.ID, "strip")
    ActionChains(page).move_to_element_with_offset(
        strip, strip.size["width"] // 8, 0
    ).click().perform()  # the third of four
    assert view(page) == pytest.approx([200, 300])


def test_arrow_keys_on_the_strip_go_from_step_to_step_and_say_how_long_each_took(page, tmp_path):
    path = tmp_path / "steps.json"
    names = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "steps"}},
    ]
    path.write_text(
        json.dumps(names + [whole(f"step {step}", 100 * step, 50 + 10 * step) for step in range(4)])
    )
    load(page, path)
    strip = page.find_element(By.ID, "strip")
    assert strip.get_attribute("aria-valuetext") == "4 steps; the longest takes 80.0 µs"
    strip.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert view(page) == pytest.approx([100, 160])
    assert strip.get_attribute("aria-valuetext") == "step 1: 60.0 µs"
    strip.send_keys(Keys.END)
    assert view(page) == pytest.approx([300, 380])
    strip.send_keys(Keys.ARROW_LEFT)
    assert view(page) == pytest.approx([200, 270])


def test_steps_that_nobody_has_marked_are_those_of_the_report(page, tmp_path):
    path = tmp_path / "steps.json"
    steps = [{"step": step, "start_us": 100 * step, "end_us": 100 * step + 60} for step in range(3)] + [
        {"step": "x", "start_us": None},
        None,
        7,
    ]
    path.write_text(
        json.dumps(
            {
                "traceEvents": [whole("ALLREDUCE", 0, 300)],
                "otherData": {"report": {"steps": steps, "findings": []}},
            }
        )
    )
    load(page, path)
    strip = page.find_element(By.ID, "strip")
    assert strip.get_attribute("aria-valuetext") == "3 steps; the longest takes 60.0 µs"
    strip.send_keys(Keys.END)
    assert view(page) == pytest.approx([200, 260])


def test_the_legend_has_the_colours_that_are_there(page, tmp_path):
    path = tmp_path / "kinds.json"
    path.write_text(
        json.dumps([whole("NEGOTIATE_ALLREDUCE", 0, 1), whole("ALLREDUCE", 1, 1), whole("forward", 2, 1)])
    )
    load(page, path)
    assert [each.text for each in page.find_elements(By.CSS_SELECTOR, "#legend li")] == [
        "waits for other ranks",
        "collective",
        "forward",
    ]
    path.write_text(json.dumps([whole("QUEUE", 0, 1)]))
    load(page, path)
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: (
            [item.text for item in each.find_elements(By.CSS_SELECTOR, "#legend li")]
            == ["waits for a result"]
        )
    )


def test_a_dropped_file_is_opened(page):
    page.execute_script(
        "const data = new DataTransfer();"
        "data.items.add(new File("
        '[JSON.stringify([{ph: "X", name: "dropped", pid: 0, tid: 0, ts: 0, dur: 1}])], "a.json"));'
        'dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}))'
    )
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.execute_script('return dabke.lanes.trace?.names.includes("dropped")')
    )


DROP = """const data = new DataTransfer();
for (const [name, text] of arguments) data.items.add(new File([text], name));
dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}))"""


def test_files_that_are_dropped_at_once_are_shown_together_and_each_fault_with_its_file(page):
    names = ["a.json", "a.json.gz", "empty.json", "a.json"]
    texts = [
        '[{"ph": "X", "name": "one", "pid": 0, "tid": 0, "ts": 0, "dur": 9}]',
        '[{"ph": "X", "name": "two", "pid": 0, "tid": 0, "ts": 5, "dur": 1}',
        '{"traceEvents": []}',
        '[{"ph": "B", "name": "open", "pid": 0, "tid": 0, "ts": 2},'
        ' {"ph": "C", "name": "queue", "pid": 0, "ts": 3, "args": {"value": 4}}]',
    ]
    page.execute_script(DROP, *zip(names, texts))
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.execute_script("return dabke.lanes.trace?.count === 3")
    )
    assert message(page) == (
        "a.json.gz: The file is cut off: its end is missing. "
        "empty.json has no events: it is empty, or not a Chrome trace (.json or .json.gz)."
    )
    assert page.execute_script(
        "return dabke.lanes.layout.groups.map(each => [each.key, each.members.length])"
    ) == [["a.json (1) · process 0", 1], ["a.json.gz (2) · process 0", 1], ["a.json (4) · process 0", 2]]
    # An event without an end ends with its own file.
    assert page.execute_script(
        "const {trace} = dabke.lanes; return [trace.names[trace.name[2]], trace.end[2]]"
    ) == ["open", 2]
    assert page.find_element(By.ID, "findings").text.count("has no report") == 1
    one = '[{"ph": "X", "name": "alone", "pid": 0, "tid": 0, "ts": 0, "dur": 9}]'
    page.execute_script(DROP, ["a.json", one])
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.execute_script("return dabke.lanes.trace.count === 1")
    )
    assert page.execute_script("return dabke.lanes.layout.groups.map(each => each.key)") == ["process 0"]


def test_begins_and_ends_of_tensors_are_read_as_horovod_writes_them(page, tmp_path):
    path = tmp_path / "horovod.json"
    path.write_text(
        '[\n{"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "grad.a"}},\n'
        '{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 10, "pid": 7},\n'
        '{"ph": "X", "name": "0", "ts": 11, "pid": 7, "dur": 0},\n{"ph": "E", "ts": 20, "pid": 7},\n'
        '{"ph": "B", "name": "ALLREDUCE", "ts": 20, "pid": 7},\n'
    )
    load(page, path)
    assert "is cut off" in message(page)
    assert page.execute_script(
        'const {trace} = dabke.lanes, i = trace.name.indexOf(trace.names.indexOf("NEGOTIATE_ALLREDUCE"));'
        "return [trace.begin[i], trace.end[i], trace.rows[trace.row[i]].process]"
    ) == [10, 20, "grad.a"]


def test_search_counts_what_a_name_and_an_expression_match(page, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([whole("alpha", 0, 1), whole("alps", 2, 1), whole("beta", 4, 1)]))
    load(page, path)
    search = page.find_element(By.ID, "search")
    search.send_keys("alp")
    assert page.find_element(By.ID, "matches").text == "2 events"
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys("/^(alps|beta)$/")
    assert page.find_element(By.ID, "matches").text == "2 events"


def test_enter_goes_from_one_found_event_to_the_next_and_round(page, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps(
            [whole("alpha", 100, 1), whole("beta", 200, 1), whole("alpha", 300, 1), whole("alpha", 9000, 1)]
        )
    )
    load(page, path)
    page.find_element(By.ID, "lanes").send_keys("/")
    assert page.switch_to.active_element.get_attribute("id") == "search"
    search = page.find_element(By.ID, "search")
    search.send_keys("alp")
    page.execute_script("dabke.lanes.look(0, 1000)")

    def after(*keys):
        search.send_keys(*keys)
        return page.execute_script("const {trace, selected} = dabke.lanes; return trace.begin[selected]")

    assert [after(Keys.ENTER) for _ in range(4)] == [100, 300, 9000, 100]
    assert after(Keys.SHIFT, Keys.ENTER) == 9000
    begin, end = view(page)
    assert begin < 9000 < end


def test_f_shows_what_is_selected_with_some_room_around_it(page, trace):
    load(page, trace)
    page.execute_script("dabke.lanes.select(7)")
    page.find_element(By.ID, "lanes").send_keys("f")
    begin, end = page.execute_script("const {trace} = dabke.lanes; return [trace.begin[7], trace.end[7]]")
    shown = view(page)
    assert shown[0] < begin and shown[1] > end and shown[1] - shown[0] < 3 * (end - begin) + 1


def test_lanes_without_tensors_show_steps_batches_and_threads_of_each_rank(page, trace):
    load(page, trace)
    page.find_element(By.CSS_SELECTOR, "#grouping option[value=batches]").click()
    rows = page.execute_script("return dabke.lanes.rows.map(row => [row.head, row.label])")
    labels = [label for _, label in rows]
    assert [head for head, _ in rows if head] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert labels.count("steps") == labels.count("batches") == 4
    assert "tensor layer1.weights.gradients" not in labels


def test_counters_are_rows_of_their_rank_and_the_pointer_tells_their_values(page, trace, tmp_path):
    load(page, trace)
    page.find_element(By.ID, "lanes").send_keys("o")
    rows = page.execute_script("return dabke.lanes.rows.map(row => row.label)")
    for name in ("queue", "bytes in flight", "bus bandwidth (MB/s)"):
        assert rows.count(name) == 4
    path = tmp_path / "counter.json"
    counts = [
        {"ph": "C", "name": "queue", "pid": 0, "ts": ts, "args": {"value": value}}
        for ts, value in ((200, 1), (400, 4), (600, 0))
    ]
    path.write_text(json.dumps([whole("ALLREDUCE", 0, 1000), *counts]))
    load(page, path)
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.execute_script('return dabke.lanes.rows.some(row => row.label === "queue")')
    )
    colours = page.execute_script("""
        const {lanes} = dabke, {canvas} = lanes, y = lanes.rows.find(row => row.label === "queue").y - lanes.scroll, ratio = devicePixelRatio;
        return [100, 300, 500, 700].map(us => [2, 14].map(down =>
            canvas.getContext("2d").getImageData(lanes.x(us) * ratio, (y + down) * ratio, 1, 1).data[3] > 0));""")
    # Pixels above and below half the height, for the values 0, 1, 4 and 0 of 4.
    assert colours == [
        [False, False],
        [False, True],
        [True, True],
        [False, False],
    ]
    lanes = page.find_element(By.ID, "lanes")
    x, y = page.execute_script(
        "const {lanes} = dabke;"
        ' return [lanes.x(500), lanes.rows.find(row => row.label === "queue").y - lanes.scroll + 8]'
    )
    middle = lanes.size["width"] / 2, lanes.size["height"] / 2
    ActionChains(page).move_to_element_with_offset(
        lanes, round(x - middle[0]), round(y - middle[1])
    ).perform()
    assert page.find_element(By.ID, "hover").text == "queue: 4, at most 4"
    labels = page.execute_script(
        "return [[500, 900], [700, 900]].map(range => {"
        " dabke.lanes.look(...range); dabke.lanes.draw();"
        " return dabke.lanes.rows.map(row => row.label).filter(Boolean); })"
    )
    # The counter is 0 from 600 on.
    assert labels == [
        ["thread 1", "queue"],
        ["thread 1", "+ 1 row without events here"],
    ]


def test_a_counter_of_very_many_changes_is_drawn_smoothly_and_shows_its_peaks(page, tmp_path):
    path = tmp_path / "counter.json"
    counts = ",".join(
        f'{{"ph":"C","name":"queue","pid":0,"ts":{i},"args":{{"value":{4 if i == 123_456 else i % 2}}}}}'
        for i in range(400_000)
    )
    path.write_text("[" + json.dumps(whole("ALLREDUCE", 0, 400_000)) + "," + counts + "]")
    load(page, path)
    peak = (
        'const {lanes} = dabke, y = lanes.rows.find(row => row.label === "queue").y - lanes.scroll,'
        " ratio = devicePixelRatio;"
        'return [-8, 0].map(by => lanes.canvas.getContext("2d")'
        ".getImageData((Math.floor(lanes.x(123456)) + by) * ratio, (y + 2) * ratio, 1, 1).data[3] > 0)"
    )
    assert page.execute_script(peak) == [False, True]
    for _ in range(TRIES):  # each of a few frames may take longer on a busy machine
        taken = page.execute_script(
            "const {lanes} = dabke, all = [];"
            "for (let i = 0; i < 21; i++) {"
            " const start = performance.now(); lanes.draw(); all.push(performance.now() - start); }"
            "return [all.sort((a, b) => a - b)[0], lanes.rectangles, lanes.canvas.clientWidth]"
        )
        if taken[0] <= MOST_FRAME_MS:
            break
    assert taken[0] <= MOST_FRAME_MS and taken[1] <= 2 * taken[2], taken


def test_the_pointer_tells_what_lies_below_it(page, tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps([whole("ALLREDUCE", 0, 1000)]))
    load(page, path)
    lanes = page.find_element(By.ID, "lanes")
    hover = page.find_element(By.ID, "hover")
    assert not hover.is_displayed()
    y = page.execute_script("return dabke.lanes.rows[0].y - dabke.lanes.scroll + 8")
    ActionChains(page).move_to_element_with_offset(lanes, 100, round(y - lanes.size["height"] / 2)).perform()
    assert hover.text == "ALLREDUCE · 1.00 ms"
    ActionChains(page).move_to_element(lanes).perform()
    assert not hover.is_displayed()


def test_of_rows_whose_head_was_scrolled_away_the_rank_is_told(page, trace):
    load(page, trace)
    page.find_element(By.ID, "lanes").send_keys("o")
    page.execute_script('dabke.lanes.scrollBy(dabke.lanes.rows.find(row => row.group === "rank 1").y + 40)')
    drawn = page.execute_script("""
        const {lanes} = dabke, texts = [], {fillText} = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function(text, x, y) { if (x === 16 && y === 10) texts.push(text); };
        try { lanes.draw(); } finally { CanvasRenderingContext2D.prototype.fillText = fillText; }
        return texts;""")
    assert drawn == ["rank 1"]


def test_a_selected_batch_shows_all_ranks_side_by_side(page, trace):
    load(page, trace)
    page.execute_script(
        "const {lanes} = dabke, {trace} = lanes;"
        "lanes.select(trace.order.findIndex((order, i) =>"
        ' trace.rows[trace.row[i]].name === "lane" && order > 0))'
    )
    lines = page.find_elements(By.CSS_SELECTOR, "#selection td:first-child")
    assert sorted(each.text for each in lines) == ["0", "1", "2", "3"]


def test_a_selected_batch_says_for_whom_the_others_waited_and_arrows_lead_from_there(page, slow_trace):
    load(page, slow_trace)
    page.execute_script(f"dabke.lanes.select({USUAL_BATCH})")
    rows = [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in page.find_elements(By.CSS_SELECTOR, "#selection tr")[1:]
    ]
    waited = {row[0]: row[-1] for row in rows}
    assert {rank: text for rank, text in waited.items() if text != "–"}.keys() == {"2"}
    # The trace's own value for that batch.
    waited_us = page.execute_script(f"return dabke.lanes.trace.lastBy[{USUAL_BATCH}]")
    recorded = [
        each["args"]["last_by_us"]
        for each in json.loads(slow_trace.read_text())["traceEvents"]
        if each.get("args", {}).get("last_rank") == 2
    ]
    assert waited_us > 25e3 and any(each == pytest.approx(waited_us) for each in recorded)
    assert float(waited["2"].removesuffix(" ms")) == pytest.approx(waited_us / 1000, rel=0.01)
    ends = page.execute_script(
        "const {lanes} = dabke, {trace} = lanes;"
        "return lanes.arrows.map(pair => pair.map(i => trace.rows[trace.row[i]].process))"
    )
    assert sorted(ends) == [["rank 2", "rank 0"], ["rank 2", "rank 1"], ["rank 2", "rank 3"]]


def test_the_page_names_the_slow_rank_and_what_it_costs(page, slow_trace, screenshots):
    load(page, slow_trace)
    finding = next(
        each.text for each in page.find_elements(By.CSS_SELECTOR, ".finding") if "rank 2" in each.text
    )
    cost = float(re.search(r"([0-9.]+) ms", finding)[1])
    # The cost is 30 ms and the delay of a busy machine, as the batches report it.
    recorded = json.loads(slow_trace.read_text())
    steps = recorded["otherData"]["report"]["steps"]
    late = [
        each["args"]["last_by_us"]
        for each in recorded["traceEvents"]
        if each["pid"] == 0
        and each.get("args", {}).get("last_rank") == 2
        and each["ts"] > steps[0]["start_us"]
    ]
    assert cost > 27 and cost == pytest.approx(statistics.median(late) / 1000, rel=0.1), finding
    page.save_screenshot(str(screenshots / "page.png"))
    page.find_element(By.ID, "filter").send_keys("batches")  # all ranks at once
    page.execute_script(
        f"const event = {USUAL_BATCH};"
        "const {lanes} = dabke, {trace} = lanes; lanes.select(event);"
        " lanes.look(trace.begin[event] - 45000, trace.end[event] + 5000)"
    )
    page.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    page.save_screenshot(str(screenshots / "selection.png"))
    # The pixels show that all four ranks' rows are drawn, in more than a few colours.
    colours = page.execute_script(
        "const {canvas} = dabke.lanes,"
        ' {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);'
        "const seen = new Set(); for (let i = 0; i < data.length; i += 4) if (data[i + 3])"
        " seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]); return seen.size"
    )
    assert colours > 8


@pytest.mark.parametrize("ranks, late, ms", [(2, 1, 5), (4, 2, 30)])
def test_the_page_names_a_rank_that_is_late_in_every_step_and_its_cost_to_a_tenth(
    page, late_job, ranks, late, ms
):
    path, said = late_job(ranks, ms, late)
    load(page, path)
    slept, after = (float(re.search(rf"{words} ([0-9.]+) ms", said)[1]) for words in ("slept", "late by"))
    assert slept >= ms
    first = page.find_element(By.CSS_SELECTOR, ".finding").text
    assert f"Rank {late} delays the others" in first
    assert float(re.search(r"cost the others ([0-9.]+) ms", first)[1]) == pytest.approx(after, rel=0.1), said
    line = next(
        each.text
        for each in page.find_elements(By.CSS_SELECTOR, "#plots tr")
        if re.match(r"rank \d", each.text)
    )
    assert re.match(rf"rank {late} \d+ % ([0-9.]+) ms", line), line
    assert float(re.match(r"rank \d+ \d+ % ([0-9.]+) ms", line)[1]) == pytest.approx(after, rel=0.1), said


@pytest.mark.parametrize("ranks, ms", [(2, 5), (4, 30)])
def test_the_page_says_that_the_cause_is_unknown_where_ranks_are_late_by_turns(page, late_job, ranks, ms):
    path, _ = late_job(ranks, ms)
    load(page, path)
    titles = [each.text for each in page.find_elements(By.CSS_SELECTOR, ".finding strong")]
    assert "Ranks wait for each other; the cause is unknown" in titles
    assert not [title for title in titles if "delays the others" in title]


def test_by_how_much_the_clocks_of_hosts_may_be_wrong_is_told(page, tmp_path):
    path = tmp_path / "hosts.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [whole("ALLREDUCE", 0, 10)],
                "otherData": {"report": {"clock_error_us": 310, "findings": []}},
            }
        )
    )
    load(page, path)
    assert page.find_element(By.ID, "name").text == "hosts.json · 1 event · hosts' clocks ±310.0 µs"


def test_a_truncated_file_shows_what_it_has_and_says_so(page, trace, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_bytes(trace.read_bytes()[:-5000])
    load(page, cut)
    assert "is cut off" in message(page)
    assert page.execute_script("return dabke.lanes.trace.count") > 0


@pytest.mark.parametrize("text", ["", "no trace", "{}", "[]"])
def test_a_file_without_events_is_refused(page, tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    load(page, path)
    assert "has no events" in message(page)


def test_markup_in_names_stays_text(page, tmp_path):
    hostile = '<img src=x onerror="window.hostile = 1"><script>window.hostile = 1</script>'
    path = tmp_path / "hostile.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [whole(hostile, 0, 1, **{hostile: hostile})],
                "otherData": {
                    "missing": [hostile],
                    "report": {
                        "findings": [
                            {"title": hostile, "text": hostile, "advice": hostile, "severity": hostile}
                        ]
                    },
                },
            }
        )
    )
    load(page, path)
    page.execute_script("dabke.lanes.select(0)")
    assert hostile in page.find_element(By.ID, "selection").text
    assert hostile in page.find_element(By.ID, "findings").text
    assert page.execute_script('return [window.hostile, document.querySelectorAll("img").length]') == [
        None,
        0,
    ]


def test_what_is_no_event_is_left_out_and_the_others_are_shown_once(page, tmp_path):
    path = tmp_path / "wrong.json"
    strange = {"toString": 1, "valueOf": 1}
    good = [whole("before", 0, 1), whole("after", 5, 1)]
    wrong = [
        whole("no time", strange, 1),
        whole("never", 1e308, 1e308),
        {"ph": "X", "ts": 1e99, "name": "x"},
        whole("text", "soon", 1),
    ]
    odd = [
        {
            "ph": "X",
            "name": strange,
            "pid": strange,
            "tid": strange,
            "ts": 2,
            "dur": strange,
            "args": {"order": strange, "bytes": strange, "last_rank": strange, "last_by_us": [strange]},
        },
        {"ph": "M", "name": "process_name", "pid": strange, "args": {"name": strange}},
        whole("args", 3, 1),
    ]
    odd[-1]["args"] = "none"
    path.write_text(json.dumps([good[0], *wrong, *odd, good[1]]))
    load(page, path)
    assert message(page) == "4 events cannot be read and are left out."
    names = page.execute_script(
        "const {trace} = dabke.lanes; return [...trace.name].map(name => trace.names[name])"
    )
    assert sorted(names) == sorted(["before", "after", json.dumps(strange, separators=(",", ":")), "args"])


def test_what_is_nested_deep_keeps_nothing_else_from_being_shown(page, tmp_path):
    path = tmp_path / "deep.json"
    deep = (
        '{"ph": "X", "name": "deep", "pid": 0, "tid": 1, "ts": 1, "dur": 1, "args": {"x": '
        + "[" * 500_000
        + "]" * 500_000
        + "}}"
    )
    path.write_text(
        "[" + ",".join([json.dumps(whole("before", 0, 1)), deep, json.dumps(whole("after", 2, 1))]) + "]"
    )
    load(page, path)
    names = page.execute_script("return dabke.lanes.trace.names")
    assert [name for name in names if name != "deep"] == ["before", "after"]
    for i in range(len(names)):
        page.execute_script("dabke.lanes.select(arguments[0])", i)
        assert names[i] in page.find_element(By.ID, "selection").text


def test_an_event_as_long_as_a_file_is_left_out_without_delay(page, tmp_path):
    path = tmp_path / "long.json"
    path.write_text(
        "["
        + json.dumps(whole("before", 0, 1))
        + ","
        + json.dumps(whole("long", 1, 1, text="x" * 100_000_000))
        + ","
        + json.dumps(whole("after", 2, 1))
        + "]"
    )
    load(page, path)
    assert message(page) == "1 event cannot be read and is left out."
    assert page.execute_script("return dabke.lanes.trace.names") == ["before", "after"]


@pytest.mark.parametrize("begin", [0, 1.7e15, -8e15])
def test_zooming_ends_where_times_cannot_be_told_apart_and_where_all_is_seen(page, tmp_path, begin):
    path = tmp_path / "times.json"
    path.write_text(json.dumps([whole("ALLREDUCE", begin, 16), whole("ALLREDUCE", begin + 32, 16)]))
    load(page, path)
    for _ in range(100):
        page.execute_script(
            "dabke.lanes.zoom(0.5); dabke.lanes.pan(dabke.lanes.end - dabke.lanes.begin); dabke.lanes.draw()"
        )
    closest = view(page)
    assert begin <= closest[0] < closest[1] <= begin + 64
    page.execute_script("for (let i = 0; i < 5000; i++) dabke.lanes.zoom(1.25); dabke.lanes.draw()")
    furthest = view(page)
    assert furthest[0] <= begin and begin + 48 <= furthest[1] and furthest[1] - furthest[0] <= 48 * 8
    page.execute_script("for (let i = 0; i < 100; i++) dabke.lanes.pan(1000); dabke.lanes.draw()")
    assert view(page)[0] <= begin + 48


RANKS, TENSORS, STEPS, LATE_RANK = 12, 160, 6, 2


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A trace of steps of a millisecond, in which rank 2 computes 200 us longer than the others. In a step's
    first 300 us, no tensor is in flight."""
    events = []
    for rank in reversed(range(RANKS)):
        names = {
            None: f"rank {rank}",
            1: "steps",
            2: "lane",
            1001: "python 4711",
            **{
                100_001 + tensor: f"grad.layer{tensor // 2}.{('weight', 'bias')[tensor % 2]}"
                for tensor in range(TENSORS)
            },
        }
        events += [
            {
                "ph": "M",
                "name": "process_name" if tid is None else "thread_name",
                "pid": rank,
                "tid": tid,
                "args": {"name": name},
            }
            for tid, name in names.items()
        ]

        def add(tid, name, begin, end, rank=rank, **args):
            events.append({**whole(name, begin, end - begin, **args), "pid": rank, "tid": tid})

        for step in range(STEPS):
            begin, ready = 1000 * step, 1000 * step + (500 if rank == LATE_RANK else 300)
            add(1, f"step {step}", begin, begin + 1000)
            add(1001, "forward", begin, begin + 100)
            add(1001, "backward", begin + 100, ready)
            add(1001, "WAIT", ready, begin + 800)
            add(
                2,
                "ALLREDUCE",
                begin + 520,
                begin + 800,
                order=1 + step * TENSORS,
                bytes=64,
                tensors=TENSORS,
                last_rank=LATE_RANK,
                last_by_us=200,
            )
            for tensor in range(TENSORS):
                add(
                    100_001 + tensor,
                    "NEGOTIATE_ALLREDUCE",
                    ready,
                    begin + 510,
                    order=1 + step * TENSORS + tensor,
                    bytes=64,
                )
                add(
                    100_001 + tensor,
                    "ALLREDUCE",
                    begin + 510,
                    begin + 800,
                    order=1 + step * TENSORS + tensor,
                    bytes=64,
                )
    evidence = {
        "rank": LATE_RANK,
        "start_us": 2300,
        "end_us": 2510,
        "tensor": "grad.layer0.weight",
        "order": 1 + 2 * TENSORS,
    }
    finding = {
        "id": "late-rank",
        "title": "Rank 2 delays the others",
        "text": "",
        "advice": "",
        "severity": "high",
        "evidence": [evidence],
    }
    path = tmp_path_factory.mktemp("job") / "job.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": events,
                "otherData": {
                    "report": {
                        "findings": [finding],
                        "cost": [{"rank": LATE_RANK, "caused_median_us": 200.0}],
                    }
                },
            }
        )
    )
    return path


TEXTS_AND_COLOURS = """
    const {lanes} = dabke, {canvas} = lanes, texts = [], {fillText} = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function(text, x, y) { texts.push(text); return fillText.call(this, text, x, y); };
    try { lanes.draw(); } finally { CanvasRenderingContext2D.prototype.fillText = fillText; }
    const hex = place => '#' + [...canvas.getContext('2d').getImageData(...place.map(each => Math.round(each * devicePixelRatio)), 1, 1).data]
        .slice(0, 3).map(each => each.toString(16).padStart(2, '0')).join('');
    const colourIn = (label, group, us) => {
        const row = lanes.rows.find(each => each.group === group && (each.label || each.head) === label);
        return hex([lanes.x(us), row.y - lanes.scroll + 2]);
    };"""


def click_on_row(page, head):
    lanes = page.find_element(By.ID, "lanes")
    y = page.execute_script(
        "return dabke.lanes.rows.find(row => row.head === arguments[0]).y - dabke.lanes.scroll + 8", head
    )
    ActionChains(page).move_to_element_with_offset(
        lanes, 60 - lanes.size["width"] // 2, round(y - lanes.size["height"] / 2)
    ).click().perform()


def test_the_first_view_is_a_lane_for_each_rank_in_order_and_the_late_one_stands_out(page, job):
    load(page, job)
    assert page.execute_script("return dabke.lanes.rows.map(row => row.head)") == [
        f"rank {rank}" for rank in range(RANKS)
    ]
    assert page.execute_script("return dabke.lanes.height <= dabke.lanes.canvas.clientHeight")
    texts, colours = page.execute_script(
        TEXTS_AND_COLOURS
        + "return [texts, [0, 1, 2, 3].map(rank => colourIn(`rank ${rank}`, `rank ${rank}`, 2400))]"
    )
    assert "late 200.0 µs" in texts
    # Three ranks wait for another rank; one is the last to be ready.
    assert colours == [
        "#e69f00",
        "#e69f00",
        "#aa3377",
        "#e69f00",
    ]
    assert "this rank was the last to be ready" in page.find_element(By.ID, "legend").text


def test_a_rank_is_opened_and_folded_by_a_click_and_by_keys(page, job):
    load(page, job)
    open_rows = "return dabke.lanes.rows.filter(row => row.row).map(row => row.group)"
    members = ["rank 2"] * (3 + TENSORS)
    click_on_row(page, "rank 2")
    assert page.execute_script(open_rows) == members
    click_on_row(page, "rank 2")
    assert page.execute_script(open_rows) == []
    lanes = page.find_element(By.ID, "lanes")
    lanes.send_keys("jjj")
    assert (
        page.execute_script('return document.getElementById("status").textContent')
        == "rank 2, late 200.0 µs, folded"
    )
    lanes.send_keys(Keys.ENTER)
    assert page.execute_script(open_rows) == members
    lanes.send_keys("k", Keys.ENTER)
    assert page.execute_script(open_rows) == ["rank 1"] * (3 + TENSORS) + members
    lanes.send_keys("o")
    assert page.execute_script(open_rows) == []
    lanes.send_keys("o")
    assert len(page.execute_script(open_rows)) == RANKS * len(members)


def test_n_and_b_go_from_event_to_event_of_the_rank_that_the_keys_are_at(page, job):
    load(page, job)
    lanes = page.find_element(By.ID, "lanes")
    lanes.send_keys("jj")  # at rank 1
    page.execute_script("dabke.lanes.look(10, 990)")
    seen = []
    for key in "nnnb":
        lanes.send_keys(key)
        seen.append(page.find_element(By.CSS_SELECTOR, "#selection h2").text)
    assert seen == ["step 0", "step 1", "step 2", "step 1"]
    assert (
        page.execute_script(
            "const {lanes} = dabke; return lanes.trace.rows[lanes.trace.row[lanes.selected]].process"
        )
        == "rank 1"
    )
    begin, end = view(page)
    assert begin < 1000 < end  # the view moves along


def test_a_selection_and_its_arrows_are_drawn_in_folded_ranks_too(page, job):
    load(page, job)
    ends = """
        const {lanes} = dabke, {trace} = lanes;
        if (lanes.selected < 0) lanes.select(trace.order.findIndex((order, i) => order > 1 && trace.rows[trace.row[i]].process === 'rank 2' && trace.lastRank[i] === 2));
        lanes.draw();
        return [lanes.arrows.map(pair => pair.map(event => lanes.placeOf(event).y + lanes.scroll)), lanes.rows.map(row => [row.head || row.label, row.y])];"""
    arrows, rows = page.execute_script(ends)
    y = dict(reversed(rows))
    assert sorted([round(place) for place in pair] for pair in arrows) == [
        [y["batches"], y[f"rank {rank}"] + 4] for rank in range(RANKS) if rank != LATE_RANK
    ]
    page.find_element(By.ID, "lanes").send_keys("o")
    arrows, rows = page.execute_script(ends)
    assert sorted([round(place) for place in pair] for pair in arrows) == [
        [dict(rows)["rank 2"] + 4, dict(rows)[f"rank {rank}"] + 4]
        for rank in range(RANKS)
        if rank != LATE_RANK
    ]


def test_rows_say_in_words_what_they_are(page, job):
    load(page, job)
    click_on_row(page, "rank 2")
    labels = page.execute_script(
        'return dabke.lanes.rows.filter(row => row.group === "rank 2").map(row => row.label || row.head)'
    )
    assert labels[:6] == [
        "rank 2",
        "steps",
        "batches",
        "thread python 4711",
        "tensor grad.layer0.weight",
        "tensor grad.layer0.bias",
    ]
    y = page.execute_script(
        'return dabke.lanes.rows.find(row => row.label === "tensor grad.layer0.bias").y + 8'
    )
    assert (
        page.execute_script("return dabke.lanes.hint(40, arguments[0])", y)
        == "rank 2 · tensor grad.layer0.bias"
    )
    page.execute_script("dabke.lanes.select(dabke.lanes.trace.order.indexOf(1))")
    ranks = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#selection tr td:first-child")]
    assert ranks == [str(rank) for rank in range(RANKS)]  # not the order of the file


def test_rows_without_an_event_in_view_fold_away(page, job):
    load(page, job)
    click_on_row(page, "rank 2")
    shown = (
        "dabke.lanes.draw();"
        ' return dabke.lanes.rows.filter(row => row.group === "rank 2").map(row => row.label || row.head)'
    )
    assert len(page.execute_script(shown)) == 4 + TENSORS
    assert page.execute_script("dabke.lanes.look(3010, 3200);" + shown) == [
        "rank 2",
        "steps",
        "thread python 4711",
        f"+ {1 + TENSORS} rows without events here",
    ]
    assert len(page.execute_script("dabke.lanes.showAll();" + shown)) == 4 + TENSORS
    # The row at the top stays there.
    page.find_element(By.ID, "lanes").send_keys("oo")
    before, after, scroll = page.execute_script("""
        const {lanes} = dabke, at = () => lanes.rows.find(row => row.label === 'thread python 4711' && row.group === 'rank 5').y - lanes.scroll;
        lanes.scrollBy(at() - 24);
        const before = at();
        lanes.look(3010, 3200);
        lanes.draw();
        return [before, at(), lanes.scroll];""")
    assert before == after == 24 and scroll > 0


def test_a_name_filters_the_rows_and_opens_the_ranks_that_have_some(page, job):
    load(page, job)
    field = page.find_element(By.ID, "filter")
    rows = "return dabke.lanes.rows.map(row => row.label || row.head)"
    ActionChains(page).send_keys(Keys.ESCAPE, "r").perform()
    assert page.switch_to.active_element == field
    field.send_keys("LAYER7.")
    assert page.execute_script(rows) == [
        label
        for rank in range(RANKS)
        for label in (f"rank {rank}", "tensor grad.layer7.weight", "tensor grad.layer7.bias")
    ]
    WebDriverWait(page, LIMIT_SECONDS).until(lambda each: "rows=LAYER7." in each.current_url)
    page.find_element(By.CSS_SELECTOR, ".finding").click()  # leads to a tensor of another name
    assert field.get_attribute("value") == ""
    assert page.execute_script("const {lanes} = dabke; return lanes.placeOf(lanes.selected) !== undefined")
    page.execute_script("dabke.lanes.layout.openAll(false)")
    field.send_keys("/^rank 1$/")
    assert page.execute_script(rows) == ["rank 1"]
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("/[/")
    assert page.execute_script('return document.getElementById("filter").matches(":invalid")')
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("none")
    assert page.execute_script(rows) == ["no row has this name"]


def test_search_counts_tensors_on_however_many_ranks(page, job, tmp_path):
    load(page, job)
    search = page.find_element(By.ID, "search")
    found = {}
    for text in ("grad", "layer3.", "/bias$/", "forward", "ward"):
        search.send_keys(Keys.CONTROL, "a")
        search.send_keys(text)
        found[text] = page.find_element(By.ID, "matches").text
    assert found == {
        "grad": "160 tensors",
        "layer3.": "2 tensors",
        "/bias$/": "80 tensors",
        "forward": f"{RANKS * STEPS} events",
        "ward": f"{2 * RANKS * STEPS} events",
    }
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys("layer3.bias", Keys.ENTER)  # opens the rank of the match
    assert page.execute_script("const {lanes} = dabke; return lanes.placeOf(lanes.selected) !== undefined")
    path = tmp_path / "horovod.json"
    path.write_text(
        json.dumps(
            [
                {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
                for pid, name in enumerate(("grad.a", "grad.b", "loss"))
            ]
            + [
                {"ph": phase, "name": "NEGOTIATE_ALLREDUCE", "pid": pid, "ts": ts}
                for pid in range(3)
                for phase, ts in (("B", 0), ("E", 9))
            ]
        )
    )
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys("grad")
    load(page, path)
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.find_element(By.ID, "matches").text == "2 tensors"
    )
    assert page.execute_script("return dabke.lanes.rows.map(row => row.head)") == [
        "tensor grad.a",
        "tensor grad.b",
        "tensor loss",
    ]


def test_what_has_one_name_has_one_colour_in_every_row_and_view(page, job):
    load(page, job)
    click_on_row(page, "rank 2")
    colours = page.execute_script(
        TEXTS_AND_COLOURS
        + """
        return [50, 200].map(us => [colourIn('rank 0', 'rank 0', 3000 + us), colourIn('rank 2', 'rank 2', 3000 + us), colourIn('thread python 4711', 'rank 2', 3000 + us)]);"""
    )
    assert [len(set(each)) for each in colours] == [1, 1] and colours[0] != colours[1], colours
    in_words = page.execute_script("""
        const hex = element => '#' + getComputedStyle(element).backgroundColor.match(/\\d+/g).map(each => Number(each).toString(16).padStart(2, '0')).join('');
        const {lanes} = dabke, {trace} = lanes;
        lanes.select(trace.name.indexOf(trace.names.indexOf('forward')));
        return [...[...document.querySelectorAll('#legend li')].filter(each => each.textContent === 'forward').map(each => hex(each.querySelector('i'))),
            hex(document.querySelector('#selection h2 i'))];""")
    assert in_words == [colours[0][0]] * 2
    page.find_element(By.CSS_SELECTOR, "#grouping option[value=tensor]").click()
    page.execute_script(
        "const {lanes} = dabke;"
        ' lanes.select(lanes.trace.name.indexOf(lanes.trace.names.indexOf("forward"))); lanes.clear()'
    )
    by_tensor = page.execute_script(
        TEXTS_AND_COLOURS
        + "return colourIn('rank 2', lanes.rows.find(row => row.head === 'thread python 4711').group, 3050)"
    )
    assert by_tensor == colours[0][0]


def test_the_strip_of_steps_lies_on_the_time_axis_of_the_lanes(page, job):
    load(page, job)
    bars = """
        const {lanes, steps} = dabke, found = [], {fillRect} = CanvasRenderingContext2D.prototype;
        lanes.draw(); lanes.on.moved();
        CanvasRenderingContext2D.prototype.fillRect = function(x, y, width) { found.push([x, x + width]); };
        try { steps.draw(); } finally { CanvasRenderingContext2D.prototype.fillRect = fillRect; }
        return [found, steps.steps.map(step => [lanes.x(step.begin), lanes.x(step.end)])];"""
    drawn, wanted = page.execute_script(bars)
    assert len(drawn) == STEPS
    assert all(abs(a - b) <= 1.01 for one, other in zip(drawn, wanted) for a, b in zip(one, other)), (
        drawn,
        wanted,
    )
    drawn, wanted = page.execute_script("dabke.lanes.look(2500, 4500);" + bars)
    assert len(drawn) == 3
    assert drawn[1] == pytest.approx(wanted[3], abs=1.01)
    before = view(page)
    ActionChains(page).scroll_from_origin(
        ScrollOrigin.from_element(page.find_element(By.ID, "strip")), 0, -200
    ).perform()
    assert before[0] < view(page)[0] < view(page)[1] < before[1]


def test_the_question_mark_shows_the_keys_unless_it_is_typed_into_a_field(page, job):
    load(page, job)
    keys = page.find_element(By.ID, "keys")
    page.find_element(By.ID, "search").send_keys("?")
    assert not keys.is_displayed()
    page.find_element(By.ID, "lanes").send_keys("?")
    assert keys.is_displayed()
    for words in ("zoom in", "open or fold the rank", "search", "filter the rows by name", "measure"):
        assert words in keys.text
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    assert not keys.is_displayed()
    page.find_element(By.ID, "help").click()
    assert keys.is_displayed()
    page.execute_script('document.getElementById("keys").close()')


def test_at_400_pixels_the_first_screen_shows_every_rank_and_nothing_sticks_out(page, job):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        load(page, job)
        page.find_element(By.ID, "search").send_keys("grad")
        outside = page.execute_script(
            "return [...document.querySelectorAll('header *, main > *, footer *, #findings *')].filter("
            "each => {const {right, width} = each.getBoundingClientRect(); return width && right > 400; })"
            ".map(each => each.outerHTML)"
        )
        assert outside == []
        assert page.execute_script("return document.documentElement.scrollWidth") == 400
        assert page.find_element(By.ID, "matches").is_displayed()
        texts, bottom = page.execute_script(
            TEXTS_AND_COLOURS + "return [texts, canvas.getBoundingClientRect().top + lanes.rows[3].y + 24]"
        )
        assert (
            {f"rank {rank}" for rank in range(4)} < set(texts) and "late" in " ".join(texts) and bottom < 400
        )
        click_on_row(page, "rank 2")
        assert page.execute_script("return dabke.lanes.rows.length") == RANKS + 3 + TENSORS
        page.find_element(By.CSS_SELECTOR, ".finding").click()
        assert page.execute_script("return dabke.lanes.selected") >= 0
        top = page.execute_script('return document.getElementById("lanes").getBoundingClientRect().top')
        assert 0 < top < 400  # the finding's target is in sight, though the finding was below it
        check_two_fingers(page)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def check_two_fingers(page):
    begin, end = page.execute_script(
        "dabke.lanes.showAll(); dabke.lanes.draw(); return [dabke.lanes.begin, dabke.lanes.end]"
    )
    y = page.execute_script('return document.getElementById("lanes").getBoundingClientRect().top + 100')

    def touch(kind, *xs):
        page.execute_cdp_cmd(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": x, "y": y, "id": i} for i, x in enumerate(xs)]},
        )

    touch("touchStart", 230, 270)
    touch("touchMove", 210, 290)
    touch("touchMove", 190, 310)
    next_frame = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
    page.execute_async_script(next_frame)
    zoomed = view(page)
    touch("touchMove", 190)  # lifting the other finger moves nothing
    touch("touchMove", 191)
    touch("touchEnd")
    page.execute_async_script(next_frame)
    assert view(page) == pytest.approx(zoomed, abs=(zoomed[1] - zoomed[0]) / 50)
    assert zoomed[1] - zoomed[0] == pytest.approx((end - begin) / 3, rel=0.05)  # 40 pixels are now 120
    middle = begin + (end - begin) * (250 - 128) / (
        page.execute_script("return dabke.lanes.canvas.clientWidth") - 128
    )
    assert zoomed[0] < middle < zoomed[1]


def test_a_finding_leads_to_its_evidence(page, tmp_path):
    path = tmp_path / "report.json"
    events = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
        whole("ALLREDUCE", 0, 10, order=1),
        whole("ALLREDUCE", 1000, 10, order=2),
    ]
    finding = {
        "title": "Rank 0 is late",
        "text": "It was last.",
        "advice": "Look at it.",
        "severity": "high",
        "evidence": [{"rank": 0, "start_us": 1000, "end_us": 1010, "tensor": None, "order": 2}],
    }
    path.write_text(json.dumps({"traceEvents": events, "otherData": {"report": {"findings": [finding]}}}))
    load(page, path)
    page.find_element(By.CSS_SELECTOR, ".finding").click()
    assert page.execute_script("return dabke.lanes.trace.order[dabke.lanes.selected]") == 2
    begin, end = view(page)
    assert 900 < begin < 1000 and 1010 < end < 1100


def test_a_change_of_the_ranks_is_a_band_above_them_and_a_finding_leads_to_it(page, tmp_path):
    path = tmp_path / "elastic.json"
    job = 1_000_000_000
    band = "epoch 2: rank 1 (host a) was killed by SIGKILL (signal 9); 1 of 2 ranks go on"
    events = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 2, "args": {"name": "lane"}},
        {"ph": "M", "name": "process_name", "pid": job, "args": {"name": "job"}},
        {"ph": "M", "name": "thread_name", "pid": job, "tid": 1, "args": {"name": "changes"}},
        {**whole(band, 20, 970, epoch=2, change=band), "pid": job},
        {**whole("ALLREDUCE", 0, 10, order=1, epoch=1), "tid": 2},
        {**whole("ALLREDUCE", 1000, 10, order=1, epoch=2), "tid": 2},
    ]
    finding = {
        "title": "Changes of the ranks cost 970 us",
        "severity": "high",
        "evidence": [{"rank": -1, "start_us": 20, "end_us": 990, "tensor": "", "order": 0}],
    }
    path.write_text(json.dumps({"traceEvents": events, "otherData": {"report": {"findings": [finding]}}}))
    load(page, path)
    heads = page.execute_script("return dabke.lanes.rows.filter(row => row.head).map(row => row.head)")
    assert heads == ["job", "rank 0"]
    assert "the ranks change" in page.find_element(By.ID, "legend").text
    page.find_element(By.CSS_SELECTOR, ".finding").click()
    selection = page.find_element(By.ID, "selection").text
    assert band in selection and "job · changes" in selection
    # The two batches have one order, in two epochs.
    page.execute_script("dabke.lanes.select(dabke.lanes.trace.order.indexOf(1))")
    assert not page.find_elements(By.CSS_SELECTOR, "#selection tr")


def tensor_of_two_ranks(path, findings=()):
    """A trace whose tensor 'grad.a' has a row on each of two ranks, beside their batches."""
    names = [
        {"ph": "M", "name": f"{kind}_name", "pid": rank, **tid, "args": {"name": name}}
        for rank in range(2)
        for kind, tid, name in (
            ("process", {}, f"rank {rank}"),
            ("thread", {"tid": 2}, "lane"),
            ("thread", {"tid": 100_001}, "grad.a"),
        )
    ]
    events = [
        {**whole(name, begin, duration, order=1), "pid": rank, "tid": tid}
        for rank in range(2)
        for name, tid, begin, duration in (
            ("NEGOTIATE_ALLREDUCE", 100_001, 0, 500),
            ("ALLREDUCE", 100_001, 500, 500),
            ("ALLREDUCE", 2, 600, 400),
        )
    ]
    path.write_text(
        json.dumps({"traceEvents": names + events, "otherData": {"report": {"findings": list(findings)}}})
    )


def test_what_a_finding_or_a_search_leads_to_is_shown_where_the_lanes_leave_tensors_out(page, tmp_path):
    path = tmp_path / "report.json"
    evidence = {"rank": 1, "start_us": 0, "end_us": 500, "tensor": "grad.a", "order": 1}
    tensor_of_two_ranks(
        path,
        [
            {
                "title": "Rank 1 is late",
                "text": "It was last.",
                "advice": "Look at it.",
                "severity": "high",
                "evidence": [evidence],
            }
        ],
    )
    load(page, path)
    drawn = """
        const {lanes} = dabke, strokes = [], {strokeRect} = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.strokeRect = function(...place) { strokes.push(place); };
        try { lanes.draw(); } finally { CanvasRenderingContext2D.prototype.strokeRect = strokeRect; }
        return [strokes.length, lanes.trace.rows[lanes.trace.row[lanes.selected]].name, document.getElementById("grouping").value];"""
    batches = page.find_element(By.CSS_SELECTOR, "#grouping option[value=batches]")
    batches.click()
    page.find_element(By.CSS_SELECTOR, ".finding").click()
    assert page.execute_script(drawn) == [1, "grad.a", "rank"]
    batches.click()  # the selection stays, though its row does not
    assert page.execute_script(drawn) == [0, "grad.a", "batches"]
    page.find_element(By.ID, "search").send_keys("grad", Keys.ENTER)
    assert page.execute_script(drawn) == [1, "grad.a", "rank"]


def test_figures_of_the_report_are_drawn_and_lead_to_their_steps(page, trace):
    load(page, trace)
    titles = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#plots figcaption")]
    assert titles == [
        "Communication of each step",
        "Late ranks, by step",
        "Last ranks",
        "Bandwidth by size of batch",
        "Tensors in a batch",
        "The slowest tensors",
    ]
    report = json.loads(trace.read_text())["otherData"]["report"]
    before = view(page)
    page.execute_script('document.querySelector("#plots svg .step").dispatchEvent(new Event("click"))')
    begin, end = view(page)
    step = report["steps"][0]
    assert begin < step["start_us"] < step["end_us"] < end and end - begin < 3 * (
        step["end_us"] - step["start_us"]
    )
    assert end - begin < before[1] - before[0]
    assert len(page.find_elements(By.CSS_SELECTOR, "#plots figure:nth-of-type(3) tr")) == 1 + 4
    assert len(page.find_elements(By.CSS_SELECTOR, "#plots circle")) == len(report["sizes"])


def test_two_traces_are_compared_by_their_reports(page, trace, tmp_path):
    slower = json.loads(trace.read_text())
    report = slower["otherData"]["report"]
    report["phases"]["collective_us"] /= 2  # so the trace on the page has become slower
    for step in report["steps"]:
        step["end_us"] += step["end_us"] - step["start_us"]
    other = tmp_path / "before.json"
    other.write_text(json.dumps(slower))
    load(page, trace)
    page.find_element(By.ID, "other").send_keys(str(other))
    WebDriverWait(page, LIMIT_SECONDS).until(
        lambda each: each.find_elements(By.CSS_SELECTOR, "#comparison tr")
    )
    assert page.find_element(By.CSS_SELECTOR, "#comparison h2").text == "Compared with before.json"
    lines = {
        row[0].text: [cell.text for cell in row[1:]]
        for row in (
            [*each.find_elements(By.TAG_NAME, "td")]
            for each in page.find_elements(By.CSS_SELECTOR, "#comparison tr")
        )
        if row
    }
    assert lines["collective"][-1] == "+100.0 %"
    assert lines["step (median)"][-1] == "−50.0 %"
    assert lines["queue"][-1] in ("+0.0 %", "")
    assert "layer1.weights.gradients" in lines
    assert page.find_element(By.CSS_SELECTOR, "#comparison .slower td").text == "collective"
    clipped = page.execute_script(
        'return [...document.querySelectorAll("aside td:not(:first-child)")]'
        ".filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent)"
    )
    assert clipped == []  # names may be cut, numbers may not
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps([whole("ALLREDUCE", 0, 10)]))
    page.find_element(By.ID, "other").send_keys(str(plain))
    WebDriverWait(page, LIMIT_SECONDS).until(lambda each: "plain.json cannot be compared" in message(each))


def test_a_report_of_nonsense_is_drawn_as_far_as_it_goes(page, tmp_path):
    path = tmp_path / "nonsense.json"
    hostile = '<img src=x onerror="window.ran=1">'
    report = {
        "steps": [{"step": hostile, "exposed_us": 1e308, "start_us": "x", "end_us": None}, 7, None],
        "lateness": {"ranks": hostile, "caused_us": [["x", 1e308, -5], 3]},
        "cost": [{"rank": hostile, "last_share": {}}],
        "sizes": [{"bytes_to": 1e308, "bus_bandwidth_mb_s": 1e308, "backend": hostile}],
        "fusion": {"histogram": [{}, 5, {"count": 1e308}]},
        "tensors": [{"name": hostile}],
        "findings": [],
    }
    path.write_text(
        json.dumps({"traceEvents": [whole("ALLREDUCE", 0, 10, order=1)], "otherData": {"report": report}})
    )
    load(page, path)
    assert message(page) == ""
    assert page.execute_script("return window.ran") is None
    assert hostile in [
        each.get_attribute("title") for each in page.find_elements(By.CSS_SELECTOR, "#plots td")
    ]


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """A million events: 8 ranks, each with 24 tensors and a lane, nested and of many lengths."""
    path = tmp_path_factory.mktemp("million") / "million.json"
    random, events = Random(5), []
    for rank in range(8):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
        for tensor in range(25):
            begin = 0.0
            for order in range(2500):
                begin += random.expovariate(0.01)
                length = random.expovariate(0.02)
                events.append(
                    {
                        "ph": "X",
                        "name": ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "ALLGATHER")[order % 3],
                        "pid": rank,
                        "tid": tensor,
                        "ts": round(begin, 3),
                        "dur": round(length, 3),
                        "args": {"order": order, "bytes": 4096},
                    }
                )
                events.append(
                    {
                        "ph": "X",
                        "name": "SHM_ALLREDUCE",
                        "pid": rank,
                        "tid": tensor,
                        "ts": round(begin + length / 4, 3),
                        "dur": round(length / 2, 3),
                    }
                )
                begin += length
    path.write_text(json.dumps({"traceEvents": events}))
    return path


MOST_FRAME_MS, MOST_TASK_MS, TRIES = 8, 200, 20

MEASURE = """
const done = arguments[arguments.length - 1], {lanes} = dabke, tasks = [];
(async () => {
  new PerformanceObserver(list => tasks.push(...list.getEntries().map(each => each.duration))).observe({entryTypes: ['longtask']});
  await new Promise(next => setTimeout(next, 500));
  lanes.drawMs.length = tasks.length = 0;
  const frame = () => new Promise(next => requestAnimationFrame(() => setTimeout(next)));
  let rectangles = 0;
  for (let i = 0; i < 60; i++) {  // in and out, to both sides, down and up
    lanes.zoom(i % 20 < 12 ? 0.7 : 1.6);
    lanes.pan((i % 3 - 1) * (lanes.end - lanes.begin) / 10);
    lanes.scrollBy(i < 30 ? 60 : -60);
    await frame();
    rectangles = Math.max(rectangles, lanes.rectangles);
  }
  lanes.showAll();
  await frame();
  rectangles = Math.max(rectangles, lanes.rectangles);
  const sorted = [...lanes.drawMs].sort((a, b) => a - b), {clientWidth, clientHeight} = lanes.canvas;
  done({frames: sorted.length, medianMs: sorted[sorted.length >> 1], worstMs: sorted.at(-1), longestTaskMs: Math.max(0, ...tasks),
        rectangles, most: clientWidth * Math.ceil(clientHeight / 16 + 1)});
})();
"""


def test_a_million_events_are_drawn_smoothly(page, million):
    load(page, million)
    assert page.execute_script("return dabke.lanes.trace.count") == 1_000_000
    for is_open in (False, True):
        if is_open:
            page.find_element(By.ID, "lanes").send_keys("o")
            assert page.execute_script("return dabke.lanes.rows.length") == 8 * (1 + 25)
        check_drawing(page)


def check_drawing(page):
    least_ms, least_task_ms, figures = math.inf, math.inf, {}
    # Either time may be longer on a busy machine; each must be short once.
    for _ in range(TRIES):
        figures = page.execute_async_script(MEASURE)
        print(figures)
        assert figures["frames"] >= 60
        assert figures["rectangles"] <= figures["most"]
        least_ms, least_task_ms = (
            min(least_ms, figures["medianMs"]),
            min(least_task_ms, figures["longestTaskMs"]),
        )
        if least_ms <= MOST_FRAME_MS and least_task_ms <= MOST_TASK_MS:
            break
    assert least_ms <= MOST_FRAME_MS and least_task_ms <= MOST_TASK_MS, figures


def test_no_lane_has_more_rectangles_than_pixel_columns(page, tmp_path):
    path = tmp_path / "many.json"
    path.write_text(json.dumps([whole("ALLREDUCE", 10 * i, 9) for i in range(100_000)]))
    load(page, path)
    assert page.execute_script("return dabke.lanes.rectangles <= dabke.lanes.canvas.clientWidth")


def test_what_lies_inside_another_event_is_drawn_below_it(page, tmp_path):
    path = tmp_path / "nested.json"
    path.write_text(
        json.dumps(
            [
                whole("NEGOTIATE_ALLREDUCE", 0.1, 0.2),
                whole("ALLREDUCE", 0.3, 9.0),
                whole("SHM_ALLREDUCE", 1.0, 8.3),
            ]
        )
    )
    load(page, path)
    depths = page.execute_script(
        "const {trace} = dabke.lanes; return Object.fromEntries(trace.names.map((name, number) =>"
        " [name, trace.depth[trace.name.indexOf(number)]]))"
    )
    assert depths == {"NEGOTIATE_ALLREDUCE": 0, "ALLREDUCE": 0, "SHM_ALLREDUCE": 1}
