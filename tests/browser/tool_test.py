"""The page as dabke-timeline hands it out: served, and as one file."""
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
TOOL = BUILD / 'timeline_viewer/dabke-timeline'


def shown(browser, address):
    """How many events the page at the address shows of itself."""
    browser.get(address)
    WebDriverWait(browser, LIMIT_SECONDS).until(lambda each: each.execute_script(
        'const text = document.getElementById("message").textContent;'
        'return !text.startsWith("Reading") && (text || window.dabke?.lanes.drawMs.length)'))
    assert browser.find_element(By.ID, 'message').text == ''
    return browser.execute_script('return dabke.lanes.trace.count')


def events_of(trace):
    return len([each for each in json.loads(trace.read_text())['traceEvents'] if each['ph'] in 'Xi'])


def errors_of(browser):
    return [entry['message'] for entry in browser.get_log('browser') if entry['level'] == 'SEVERE' and 'favicon' not in entry['message']]


@pytest.fixture
def served(trace):
    process = subprocess.Popen([TOOL, 'view', '--no-open', trace], stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_SECONDS) == 0


def test_view_serves_the_trace_and_its_report(browser, served, trace):
    browser.get_log('browser')
    assert shown(browser, served) == events_of(trace)
    assert browser.find_element(By.ID, 'findings').text.strip() != ''
    assert 'trace.json' in browser.find_element(By.ID, 'name').text
    assert errors_of(browser) == []


def test_view_answers_this_host_under_its_path_alone(served):
    parts = urllib.parse.urlsplit(served)
    assert parts.hostname == '127.0.0.1'
    assert len(parts.path) == 2 + 32

    def status(path, method='GET', **headers):
        connection = http.client.HTTPConnection(parts.netloc, timeout=LIMIT_SECONDS)
        connection.request(method, path, headers=headers)
        return connection.getresponse().status

    assert status(parts.path) == 200
    assert status(parts.path + 'trace') == 200
    assert status(parts.path, Host=f'localhost:{parts.port}') == 200
    assert status(parts.path, Host='evil.example') == 403
    assert status(parts.path, Host=f'evil.example:{parts.port}') == 403
    assert status('/') == 404
    assert status('/' + '0' * 32 + '/trace') == 404
    assert status(parts.path + '../../etc/passwd') == 404
    assert status(parts.path, method='POST') == 405
    assert status(parts.path, X='x' * 20_000) == 431


@pytest.mark.parametrize('name', ['plain', 'records'])
def test_an_exported_page_needs_nothing_else(browser, trace, tmp_path, name):
    page = tmp_path / f'{name}.html'
    source = trace if name == 'plain' else f'{trace}.rank0'
    subprocess.run([TOOL, 'export', source, '-o', page], check=True, capture_output=True)
    browser.get_log('browser')
    assert shown(browser, page.as_uri()) == events_of(trace)
    assert browser.find_element(By.ID, 'findings').text.strip() != ''
    assert errors_of(browser) == []
    assert browser.execute_script('return performance.getEntriesByType("resource").filter(each => each.name.startsWith("http")).length') == 0


ATTEMPTS = '''
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
'''


@pytest.mark.parametrize('way', ['view', 'export'])
def test_whatever_gets_into_the_page_runs_no_script_and_asks_no_other_host(browser, served, trace, tmp_path, way):
    address = served
    if way == 'export':
        page = tmp_path / 'page.html'
        subprocess.run([TOOL, 'export', trace, '-o', page], check=True, capture_output=True)
        address = page.as_uri()
    assert shown(browser, address) == events_of(trace)
    ran, refused = browser.execute_async_script(ATTEMPTS)
    assert ran is None
    assert refused == ['connect-src', 'frame-src', 'img-src', 'script-src-attr', 'script-src-elem']
    browser.get_log('browser')


def test_names_of_an_exported_trace_stay_names(browser, tmp_path):
    hostile = '</script><script>window.ran = 1</script><!--<img src=x onerror="window.ran=1">'
    trace = tmp_path / 'a"><b>.json'
    trace.write_text(json.dumps({'traceEvents': [
        {'name': 'process_name', 'ph': 'M', 'pid': 0, 'args': {'name': 'rank 0'}},
        {'name': 'thread_name', 'ph': 'M', 'pid': 0, 'tid': 100001, 'args': {'name': hostile}},
        *({'name': kind, 'ph': 'X', 'pid': 0, 'tid': 100001, 'ts': 10 * step + at, 'dur': 4,
           'args': {'order': step + 1, 'bytes': 8, **({} if kind.startswith('N') else {'batch': f'{step + 1}.0'})}}
          for step in range(5) for at, kind in ((0, 'NEGOTIATE_ALLREDUCE'), (5, 'ALLREDUCE')))]}))
    page = tmp_path / 'page.html'
    subprocess.run([TOOL, 'export', trace, '-o', page], check=True, capture_output=True)
    assert hostile in json.loads(subprocess.run([TOOL, 'report', '--json', trace], check=True, capture_output=True).stdout)['tensors'][0]['name']
    assert shown(browser, page.as_uri()) == 10
    assert browser.execute_script('return window.ran') is None
    os.remove(trace)
