"""The files of deploy/: linted by those who can, and true to the command and to each other."""

import http.client
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onlinecal.simulations.cli.console import app
from tests import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
UNIT = DEPLOY / "onlinecal.service"
STAGES = DOCKERFILE.split("\nFROM ")[1:]


def lines_of(stage):
    """The instructions of a stage, each in one line."""
    text = re.sub(r"^\s*#.*\n", "", stage.replace("\\\n", " "), flags=re.M)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def instruction(name, stage=STAGES[-1]):
    [found] = [line.removeprefix(f"{name} ") for line in lines_of(stage) if line.startswith(f"{name} ")]
    return found


def test_the_dockerfile_is_linted():
    tool = shutil.which("hadolint", path=Path(sys.executable).parent) or shutil.which("hadolint")
    if tool is None:
        pytest.skip("hadolint is not here")
    found = subprocess.run([tool, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_runs_as_nobody_in_particular_with_kernels_that_root_has_made():
    assert int(instruction("USER").split(":")[0]) > 999
    assert "/health" in instruction("HEALTHCHECK")
    made, used = (dict(re.findall(r"(NUMBA_\w+)=(\S+)", instruction("ENV", stage))) for stage in STAGES)
    assert made == used
    assert set(made) == {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_CACHE_DIR"}
    # what runs comes from the other stage as it was made there, by root
    copied = [line for line in lines_of(STAGES[-1]) if line.startswith("COPY")]
    assert copied == ["COPY --from=build /opt/onlinecal /opt/onlinecal"]
    assert made["NUMBA_CACHE_DIR"].startswith("/opt/onlinecal/")
    assert "USER" not in STAGES[0]
    assert lines_of(STAGES[0])[-1].endswith("onlinecal warmup")


def copied_into_the_build():
    """The files and folders that the first stage copies, which may be patterns."""
    return [name for line in lines_of(STAGES[0]) if line.startswith("COPY") for name in line.split()[1:-1]]


def test_what_the_image_is_made_of_is_there_and_is_all_that_the_builder_sees():
    let = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    seen = [line[1:] for line in let if line.startswith("!")]
    assert "*" in let
    assert sorted(re.sub(r"\[(.)\]", r"\1", name) for name in copied_into_the_build()) == sorted(seen)
    for name in copied_into_the_build():
        # a release has this one, a checkout has not
        assert list(ROOT.glob(name)) or name == "PKG-INF[O]"


def version_built_from(tree, folder, **variables):
    """The version of the wheel that the image's build makes of what it copies from a tree."""
    sources = folder / "source"
    sources.mkdir(parents=True)
    for name in copied_into_the_build():
        for path in tree.glob(name):
            if path.is_dir():
                shutil.copytree(path, sources / path.name, symlinks=True)
            else:
                shutil.copy(path, sources / path.name)
    [install] = [line for line in lines_of(STAGES[0]) if line.startswith("RUN")]
    prepare = install.removeprefix("RUN ").partition(" && ")[0]
    wheel = f"{prepare} && {shlex.quote(sys.executable)} -m pip wheel -q --no-deps -w {folder} {sources}"
    environment = {key: value for key, value in os.environ.items() if "SCM" not in key}
    subprocess.run(["sh", "-ec", wheel], env={**environment, "VERSION": "", **variables}, check=True)
    [made] = folder.glob("*.whl")
    return made.name.split("-")[1]


@pytest.mark.slow
def test_an_image_is_built_of_a_checkout_of_an_archive_and_of_a_release(tmp_path):
    """And knows its version. Needs a package index, or what the build needs in pip's cache."""

    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        subprocess.run(command, cwd=checkout, check=True, capture_output=True)

    checkout, archive, release = (tmp_path / name for name in ("checkout", "archive", "release"))
    for folder in (archive, release):
        folder.mkdir()
    subprocess.run(["git", "clone", "-q", "--depth=1", ROOT.as_uri(), str(checkout)], check=True)
    assert version_built_from(checkout, tmp_path / "told", VERSION="7.1") == "7.1"
    assert version_built_from(checkout, tmp_path / "untold") == "0.1.dev0"
    git("tag", "-a", "v7.2", "-m", "a release")
    git("archive", "--output", str(tmp_path / "a.tar"), "HEAD")
    shutil.unpack_archive(tmp_path / "a.tar", archive)
    assert version_built_from(archive, tmp_path / "of-archive") == "7.2"
    build = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(checkout)]
    subprocess.run(build, check=True, capture_output=True)
    shutil.unpack_archive(tmp_path / "onlinecal-7.2.tar.gz", release)
    [unpacked] = release.iterdir()
    assert version_built_from(unpacked, tmp_path / "of-release") == "7.2"
    # and all that compose needs is there, too
    for name in ("compose.yaml", "alerts.yaml", "alertmanager.yaml", "Dockerfile.dockerignore"):
        assert (unpacked / "deploy" / name).read_text() == (checkout / "deploy" / name).read_text()


def test_the_workflow_of_a_release_tells_the_image_its_version():
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert '--build-arg VERSION="${GITHUB_REF_NAME#v}"' in release


def assert_understood(arguments):
    """The command `stream serve` has these options."""
    told = CliRunner().invoke(app, ["stream", "serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    options = [one for one in arguments if one.startswith("--")]
    assert options
    for option in options:
        assert re.search(rf"{option}\b", told.stdout)


def test_the_commands_are_understood():
    assert json.loads(instruction("ENTRYPOINT")) == ["onlinecal", "stream"]
    command = json.loads(instruction("CMD"))
    assert command[0] == "serve"
    assert_understood(command)
    start = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.M).group(1)
    assert shlex.split(start)[:3] == ["/opt/onlinecal/venv/bin/onlinecal", "stream", "serve"]
    assert_understood(shlex.split(start))


def test_the_unit_is_one_for_systemd(tmp_path):
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not here")
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/onlinecal/venv/bin/onlinecal", "/bin/true"))
    found = subprocess.run([tool, "verify", str(path)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def test_compose_and_prometheus_fit_the_image():
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    [job] = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]
    engine, prometheus = compose["services"]["onlinecal"], compose["services"]["prometheus"]
    for service in compose["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for volume in service["volumes"]:
            folder = volume.split(":")[0]
            assert folder in compose["volumes"] or (DEPLOY / folder).exists()
    for service in (engine, prometheus):
        [secret] = service["secrets"]
        assert set(compose["secrets"]) == {secret}
    token, command = f"/run/secrets/{secret}", json.loads(instruction("CMD"))
    assert command[command.index("--token-file") + 1] == token == job["authorization"]["credentials_file"]
    assert job["static_configs"] == [{"targets": ["onlinecal:8765"]}]
    assert instruction("EXPOSE") == "8765"
    assert (DEPLOY / engine["build"]["context"]).resolve() == ROOT
    assert engine["build"]["dockerfile"] == "deploy/Dockerfile"


def test_alerts_are_about_metrics_that_there_are():
    yaml = pytest.importorskip("yaml")
    metrics = pytest.importorskip("onlinecal.engine.http.metrics")
    source = Path(metrics.__file__).read_text(encoding="utf-8")
    for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            for name in re.findall(r"\bonlinecal_(\w+)", rule["expr"]):
                assert f'"{name.removesuffix("_total")}"' in source


def test_every_alarm_reaches_a_receiver():
    yaml = pytest.importorskip("yaml")
    compose, prometheus, manager, alerts = (
        yaml.safe_load((DEPLOY / f"{name}.yaml").read_text())
        for name in ("compose", "prometheus", "alertmanager", "alerts")
    )
    [target] = prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    host, port = target.split(":")
    service = compose["services"][host]
    assert f"127.0.0.1:{port}:{port}" in service["ports"]
    assert any("alertmanager.yaml" in volume for volume in service["volumes"])
    routed = {matcher for route in manager["route"]["routes"] for matcher in route["matchers"]}
    used = {f'severity="{rule["labels"]["severity"]}"' for rule in alerts["groups"][0]["rules"]}
    # what no route matches goes to the first receiver
    assert routed < used
    names = {manager["route"]["receiver"], *(route["receiver"] for route in manager["route"]["routes"])}
    assert names == {one["name"] for one in manager["receivers"]}


def linted(tool, *arguments):
    """What a tool of Prometheus says; the test is skipped where there is none."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not here")
    found = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_alertmanager_takes_its_configuration():
    linted("amtool", "check-config", DEPLOY / "alertmanager.yaml")


def test_prometheus_takes_its_configuration(tmp_path):
    text = (DEPLOY / "prometheus.yaml").read_text()
    token = tmp_path / "token"
    token.touch()
    shutil.copy(DEPLOY / "alerts.yaml", tmp_path)
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets/onlinecal_token", str(token)))
    linted("promtool", "check", "config", tmp_path / "prometheus.yml")


HOURS = 24
ALARMS = {
    # events and outcomes come; keys with expire_as are settled in any case
    "all is well": ("0+10x{m}", "0+10x{m}", "0+5x{m}", []),
    "outcomes have not come for six hours": ("0+10x{m}", "0+10x{m}", "0+5x600 3000x{m}", ["NoOutcomes"]),
    "they come once in some hours": ("0+10x{m}", "0+10x{m}", "0x{m}", ["NoOutcomes"]),
    "nothing is asked for, either": ("100x{m}", "50x{m}", "50x{m}", []),
}


@pytest.mark.parametrize("name", ALARMS)
def test_the_alarm_about_outcomes_is_raised_when_they_are_missing_and_only_then(tmp_path, name):
    events, rounds, outcomes, expected = ALARMS[name]
    series = (("events", events), ("rounds", rounds), ("outcomes", outcomes))
    lines = [
        f"""{{series: "onlinecal_{of}_total{{job='onlinecal'}}", values: {values.format(m=60 * HOURS)}}}"""
        for of, values in series
    ]
    raised = "[{exp_labels: {severity: ticket, job: onlinecal}, exp_annotations: {summary: '%s'}}]"
    yaml = pytest.importorskip("yaml")
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    [summary] = [one["annotations"]["summary"] for one in rules if one["alert"] == "OnlinecalNoOutcomes"]
    # an engine that has just started is no alarm
    times = ("30m", "[]"), (f"{HOURS - 1}h", raised % summary if expected else "[]")
    tests = "".join(
        f"      - {{eval_time: {time}, alertname: OnlinecalNoOutcomes, exp_alerts: {alerts}}}\n"
        for time, alerts in times
    )
    file = tmp_path / "test.yaml"
    file.write_text(
        f"rule_files: [{DEPLOY / 'alerts.yaml'}]\nevaluation_interval: 1m\ntests:\n"
        f"  - interval: 1m\n    input_series: [{', '.join(lines)}]\n    alert_rule_test:\n{tests}"
    )
    linted("promtool", "test", "rules", file)


TOKEN = "correct-horse-battery"
SERVE = "from onlinecal.cli.stream.serve import serve; import typer; typer.run(serve)"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(*command, **settings):
    with subprocess.Popen(command, **settings) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def connected(port, patience=60):
    """A connection to something that has just been started."""
    for _ in range(10 * patience):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}")


@pytest.fixture
def proxied(tmp_path):
    """The port of nginx with the configuration of deploy/, in front of an engine with a token."""
    for tool in ("nginx", "openssl"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here")
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    port, engine = free_port(), free_port()
    certificate, key = tmp_path / "onlinecal.crt", tmp_path / "onlinecal.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=onlinecal.example.org"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    text = (DEPLOY / "nginx.conf").read_text()
    for before, after in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("server 127.0.0.1:8765", f"server 127.0.0.1:{engine}"),
        ("/etc/nginx/onlinecal.crt", str(certificate)),
        ("/etc/nginx/onlinecal.key", str(key)),
        ("client_body_timeout 10s", "client_body_timeout 3s"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    folders = "".join(
        f"{name}_temp_path {tmp_path};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = tmp_path / "nginx.conf"
    main.write_text(
        f"daemon off; {'user root;' if os.geteuid() == 0 else ''} pid {tmp_path}/pid; error_log stderr;"
        f"events {{}} http {{ access_log off; {folders} {text} }}"
    )
    nginx = ["nginx", "-p", str(tmp_path), "-e", "stderr", "-c", str(main)]
    tested = subprocess.run([*nginx, "-t"], capture_output=True, text=True, check=False)
    assert (tested.returncode, "successful" in tested.stderr) == (0, True), tested.stderr
    serve = [sys.executable, "-c", SERVE, "--ledger", str(tmp_path / "ledger.db"), "--port", str(engine)]
    quiet, environment = {"stderr": subprocess.DEVNULL}, {**os.environ, "ONLINECAL_TOKEN": TOKEN}
    with running(*serve, env=environment, **quiet), running(*nginx, **quiet):
        for one in (engine, port):
            connected(one).close()
        yield port


@pytest.fixture
def over_tls(proxied):
    """A function that makes a TLS connection to the proxy."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as stack:
        yield lambda: stack.enter_context(context.wrap_socket(connected(proxied)))


def asked(connection, path="/query", body=b'{"id": "q", "key": "rain/oslo", "hint": 0.7}', token=TOKEN):
    """The status and the body of an answer."""
    client = http.client.HTTPConnection("onlinecal.example.org")
    client.sock = connection
    client.request("POST", path, body, {"Authorization": f"Bearer {token}"})
    answer = client.getresponse()
    return answer.status, answer.read()


def test_the_proxy_passes_on_what_may_come_and_nothing_else(over_tls):
    connection = over_tls()
    for _ in range(2):
        status, body = asked(connection)
        assert (status, json.loads(body)["type"]) == (200, "forecast")
    assert asked(over_tls(), token="another-token-of-its-own")[0] == 401
    assert asked(over_tls(), body=b" " * ((1 << 20) + 1))[0] == 413


def test_the_proxy_ends_slow_requests_and_bounds_the_connections_of_a_client(over_tls):
    begun = b"POST /query HTTP/1.1\r\nHost: onlinecal.example.org\r\nContent-Length: 50\r\n\r\n{"
    slow = [over_tls() for _ in range(50)]
    for connection in slow:
        connection.sendall(begun)
    assert asked(over_tls())[0] == 429
    for connection in slow:
        # without an answer, or with one that says so
        assert connection.recv(1 << 12)[:12] in (b"", b"HTTP/1.1 408")
    assert asked(over_tls())[0] == 200
