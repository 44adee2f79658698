"""The same tests for both Remotes, and tests of connections that are refused, spoofed or broken."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import paramiko
import pytest
from ssh_head import new_key, no_longer_sends, once, running_head

from gpucluster.errors import RemoteError, UnansweredError
from gpucluster.following import logs
from gpucluster.following.logs import Selection
from gpucluster.following.patience import Patience
from gpucluster.head import remote as remote_module
from gpucluster.head import streams
from gpucluster.head.remote import Completed, SshRemote
from gpucluster.head.tunnel import TunnelSocket
from localcloud.testing import patience
from tests.in_process import InProcessRemote

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def head():
    with running_head() as head:
        yield head


@pytest.fixture
def ssh(head):
    remote = SshRemote(head)
    yield remote
    remote.close()


@pytest.fixture(params=["ssh", "in process"])
def remote(request):
    return request.getfixturevalue("ssh") if request.param == "ssh" else InProcessRemote()


def test_arguments_arrive_as_they_are(remote):
    words = ["a b", "it's", '"x"', "$HOME", "`id`", "", "*", "ünï", "two\nlines"]
    done = remote.run(["printf", "%s|", *words])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "".join(f"{word}|" for word in words), "")


def test_exit_code_and_both_outputs(remote):
    done = remote.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    with pytest.raises(RemoteError, match="it failed: exit code 7: err"):
        done.check("it failed")


def test_much_output_on_both_streams(remote):
    """More than SSH's window on each, so reading one to its end first would hang."""
    command = "head -c 4000000 /dev/zero | tr '\\0' a; head -c 4000000 /dev/zero | tr '\\0' b >&2"
    done = remote.run(["sh", "-c", command])
    assert (len(done.stdout), len(done.stderr), done.exit_code) == (4_000_000, 4_000_000, 0)


def test_input_reaches_the_command(remote):
    data = bytes(range(256)) * 8192
    assert remote.run(["wc", "--bytes"], input=data).stdout.split() == [str(len(data))]


def test_put_and_get(remote, tmp_path):
    path, data = str(tmp_path / "it's here"), bytes(range(256)) * 1000
    remote.put(data, path, mode=0o600)
    assert remote.get(path) == data
    assert (tmp_path / "it's here").stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["it's here"]


def test_a_file_that_is_not_there(remote, tmp_path):
    with pytest.raises(RemoteError, match=r"cannot read .*/none"):
        remote.get(str(tmp_path / "none"))


def test_a_command_that_takes_too_long(remote):
    started = time.monotonic()
    with pytest.raises(RemoteError, match="^the head node did not answer within 1 s$"):
        remote.run(["sleep", "600"], timeout_s=1)
    assert time.monotonic() - started < 300


def test_follow_gives_each_line_once_as_it_comes(remote, tmp_path):
    log, done = tmp_path / "log.txt", threading.Event()
    log.write_text("first\n")
    writer = threading.Thread(target=write_lines, args=(log, 20, done))
    writer.start()
    lines = list(remote.follow(str(log), stop=done.is_set))
    writer.join()
    assert lines == ["first", *(f"line {number}" for number in range(20)), "no end"]


def write_lines(log, count, done, pause_s=0.02):
    with log.open("a") as file:
        for number in range(count):
            file.write(f"line {number}\n")
            file.flush()
            time.sleep(pause_s)
        file.write("no end")
    done.set()


def test_follow_survives_the_end_of_the_tunnel(head, ssh, tmp_path):
    log, done = tmp_path / "log.txt", threading.Event()
    log.touch()
    writer = threading.Thread(target=write_lines, args=(log, 200, done, 0.01))
    writer.start()
    seen = []
    for line in ssh.follow(str(log), stop=done.is_set):
        seen.append(line)
        if line in ("line 30", "line 90"):
            head.cut()
    writer.join()
    assert seen == [*(f"line {number}" for number in range(200)), "no end"]
    assert head.opened == 3


def test_follow_outlasts_a_head_that_does_not_answer_and_finds_the_next_one(head, tmp_path):
    log, done, told = tmp_path / "log.txt", threading.Event(), []
    log.write_text("first\n")
    with running_head() as another:
        remote = SshRemote(head, find_again=lambda: another if told[2:] else head)

        def outlast(error):
            told.append(error.message)

        def stop():
            if not told:
                head.refuse_tunnel = "the head is away"
                head.cut()
            elif another.opened and not done.is_set():
                with log.open("a") as file:  # `tail -f` would show a file that is written anew from its start
                    file.write("second\n")
                done.set()
                return False
            return done.is_set()

        assert list(remote.follow(str(log), stop=stop, outlast=outlast)) == ["first", "second"]
        remote.close()
    assert told[0] == "no SSH connection to the head node: the head is away"


def test_follow_without_patience_ends_with_the_error(head, ssh, tmp_path):
    head.refuse_tunnel = "the head is away"
    with pytest.raises(RemoteError, match="the head is away"):
        list(ssh.follow(str(tmp_path / "log.txt"), stop=lambda: True))


def test_follow_waits_for_a_log_that_is_not_there_yet(head, ssh, tmp_path):
    """A booting head node has no /home at first."""
    log, seen = tmp_path / "log.txt", []

    def stop():
        if not log.exists():
            log.write_text("late\n")
        return bool(seen)

    for line in ssh.follow(str(log), stop=stop):
        seen.append(line)
    assert seen == ["late"]


def test_output_arrives_while_the_command_runs_and_its_input_ends_when_the_caller_wants(remote):
    asked = []
    pieces = remote.stream(
        ["sh", "-c", "echo first; cat; echo last"], what="x", stop=lambda: bool(asked) or asked.append(1)
    )
    assert b"".join(pieces) == b"first\nlast\n" and asked


def test_much_output_arrives_in_pieces_and_errors_come_at_its_end(remote):
    script = "head -c 4000000 /dev/zero | tr '\\0' a; head -c 4000000 /dev/zero | tr '\\0' b >&2; echo why >&2; exit 7"
    found = remote.stream(["sh", "-c", script], what="cannot read it")
    size = len(next(found))
    assert size <= 65536
    with pytest.raises(RemoteError, match="^cannot read it: exit code 7: .*why$"):
        for piece in found:
            size += len(piece)
    assert size == 4_000_000


def test_a_followed_choice_of_lines_survives_the_end_of_the_tunnel(head, ssh, tmp_path):
    """The head node chooses the lines; each comes once, over three connections."""
    log, done, told = tmp_path / "log.txt", threading.Event(), []
    log.write_text("line -1\n")
    writer = threading.Thread(target=write_lines, args=(log, 200, done, 0.01))
    writer.start()
    asked, waits = logs._Asked(str(log), Selection(grep="[05]$|no end")), Patience("12", told.append, time.sleep)
    seen = []
    for line in logs._followed(ssh, "12", asked, done.is_set, waits):
        seen.append(line)
        if line in ("line 30", "line 90"):
            head.cut()
    writer.join()
    assert seen == [*(f"line {number}" for number in range(0, 200, 5)), "no end"]
    assert head.opened == 3 and told


def test_a_connection_serves_many_commands(head, ssh):
    assert [ssh.run(["echo", str(number)]).stdout for number in range(3)] == ["0\n", "1\n", "2\n"]
    assert (head.opened, len(head.pushed)) == (1, 1)


def test_more_commands_at_once_than_a_connection_has_sessions(head, ssh):
    """For example waiting for forty jobs at once."""
    with ThreadPoolExecutor(40) as pool:
        done = pool.map(lambda number: ssh.run(["sh", "-c", f"sleep 0.2; echo {number}"]).stdout.strip(), range(40))
        assert list(done) == [str(number) for number in range(40)]
    assert (head.opened, head.refused_sessions) == (1, 0)
    assert head.most_sessions <= 8


def test_a_session_that_is_one_too_many_waits_and_ends_no_other(head, ssh, monkeypatch):
    monkeypatch.setattr(remote_module, "_FULL_PAUSE_S", 0.05)
    held = [ssh.session() for _ in range(10)]
    for each in held:
        each.exec_command("cat")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ssh.run, ["echo", "at last"])
        wait_for(lambda: head.refused_sessions >= 2)
        held[0].shutdown_write()
        assert waiting.result().stdout == "at last\n"
    for each in held[1:]:
        each.sendall(b"still here")
        each.shutdown_write()
        assert each.recv(100) == b"still here"
    assert head.opened == 1


def test_a_connection_that_stays_full_is_an_error_that_ends_no_session(head, ssh, monkeypatch):
    monkeypatch.setattr(remote_module, "_FULL_S", 0.0)
    monkeypatch.setattr(remote_module, "_FULL_PAUSE_S", 0.0)
    head.max_sessions = 1
    held = ssh.session()
    held.exec_command("cat")
    with pytest.raises(RemoteError, match="refuses a further session"):
        ssh.run(["true"])
    held.sendall(b"still here")
    assert held.recv(100) == b"still here"
    assert head.opened == 1


def wait_for(happened):
    patience.wait_for("it happened", happened, 300, 0.01)


def test_after_the_tunnel_ended_the_key_is_pushed_again(head, ssh):
    ssh.run(["true"])
    head.cut()
    assert ssh.run(["echo", "again"]).stdout == "again\n"
    assert head.opened == 2
    assert len({key for _, key in head.pushed}) == 2


def test_a_command_is_not_sent_twice(head, ssh, tmp_path):
    broke = pytest.raises(RemoteError, match="^the connection to the head node broke")
    with once(tmp_path / "runs", head.cut), broke:
        ssh.run(["sh", "-c", f"echo ran >>{tmp_path}/runs; sleep 3"])
    assert (tmp_path / "runs").read_text() == "ran\n"


def test_a_connection_that_broke_unnoticed_does_not_replace_the_error(ssh, tmp_path, monkeypatch):
    """paramiko raises EOFError if it cannot send that a channel is closed."""

    def stop_sending():
        monkeypatch.setattr(TunnelSocket, "send", no_longer_sends)
        (tmp_path / "broke").touch()

    script = f"cat; touch {tmp_path}/runs; until [ -e {tmp_path}/broke ]; do echo waits; sleep 0.1; done; sleep 600"
    late = pytest.raises(RemoteError, match="^the head node did not answer within 3 s$")
    with once(tmp_path / "runs", stop_sending), late:
        ssh.run(["sh", "-c", script], timeout_s=3)


def test_a_command_that_a_signal_ended(ssh):
    with pytest.raises(UnansweredError, match="^a signal ended the command on the head node$"):
        ssh.run(["sh", "-c", "kill -9 $$"])
    assert ssh.run(["true"]).exit_code == 0


def test_a_connection_that_breaks_after_a_command_closed_its_outputs(head, ssh, tmp_path):
    broke = pytest.raises(UnansweredError, match="^the connection to the head node broke")
    with once(tmp_path / "runs", head.cut), broke:
        ssh.run(["sh", "-c", f"exec >&- 2>&-; touch {tmp_path}/runs; sleep 600"])


def test_a_connection_that_breaks_after_a_command_before_its_last_output(head, ssh, tmp_path):
    """The command has an exit status, but a process that it started still writes."""
    script = f"echo first; (sleep 600; echo late) & touch {tmp_path}/ended"
    broke = pytest.raises(UnansweredError, match="^the connection to the head node broke")
    with once(tmp_path / "ended", head.cut), broke:
        ssh.run(["sh", "-c", script])


def test_a_command_that_ends_without_reading_its_input(ssh):
    done = ssh.run(["sh", "-c", "echo no space >&2; exit 3"], input=b"x" * 10_000_000)
    assert (done.exit_code, done.stderr) == (3, "no space\n")


def test_a_command_that_the_head_node_does_not_start(head, ssh):
    head.on_command = lambda: False
    with pytest.raises(RemoteError, match="^the head node refuses to start a command$") as refused:
        ssh.run(["true"])
    assert not isinstance(refused.value, UnansweredError)
    with pytest.raises(RemoteError, match="^the head node refuses to start a command$"):
        list(ssh.follow("/dev/null", stop=lambda: True))
    head.on_command = lambda: True
    assert ssh.run(["true"]).exit_code == 0
    assert head.opened == 1


def test_a_head_node_that_does_not_answer_a_request(head, ssh):
    answered = threading.Event()
    head.on_command = lambda: answered.wait(300)
    with pytest.raises(UnansweredError, match="^the head node did not answer within 1 s$"):
        ssh.run(["true"], timeout_s=1)
    answered.set()


def test_the_other_output_may_be_silent_for_longer_than_the_time_limit():
    answers = [TimeoutError(), b"full", TimeoutError(), b" disk", EOFError()]

    def receive(count):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert streams.Reader(receive).text() == b"full disk"


def test_another_host_key_is_refused_before_anything_is_sent(head, ssh):
    head.key = new_key()
    with pytest.raises(RemoteError, match="not connecting") as caught:
        ssh.run(["true"])
    assert "SHA256:" in caught.value.message


def test_awss_three_calls_do_not_wait_for_each_other(head, ssh, monkeypatch):
    together = threading.Barrier(3, timeout=10)

    def waiting(answer):
        def call(*words):
            together.wait()
            return answer(*words)

        return call

    for name in ("host_key", "push_key", "tunnel_url"):
        monkeypatch.setattr(head, name, waiting(getattr(head, name)))
    assert ssh.run(["true"]).exit_code == 0


def test_an_error_does_not_wait_for_another_call(head, ssh, monkeypatch):
    answered, before = threading.Event(), set(threading.enumerate())
    monkeypatch.setattr(head, "push_key", lambda key: answered.wait(60))
    monkeypatch.setattr(head, "tunnel_url", lambda: answered.wait(60))
    head.published = "pending"
    with pytest.raises(RemoteError, match="has not booted yet"):
        ssh.run(["true"])
    assert not answered.is_set()
    assert all(each.daemon for each in set(threading.enumerate()) - before)
    answered.set()


def test_an_old_url_is_signed_again(head, ssh, monkeypatch):
    signed = []
    url = head.tunnel_url()
    monkeypatch.setattr(head, "tunnel_url", lambda: signed.append(url) or url)
    monkeypatch.setattr(remote_module, "_URL_S", 0.0)
    assert ssh.run(["true"]).exit_code == 0
    assert len(signed) == 2


def test_a_head_node_without_a_host_key_is_named_before_other_errors(head, ssh, monkeypatch):
    def refused(*words):
        raise RemoteError("not now")

    head.published = "pending"
    monkeypatch.setattr(head, "push_key", refused)
    monkeypatch.setattr(head, "tunnel_url", refused)
    with pytest.raises(RemoteError, match="has not booted yet"):
        ssh.run(["true"])


@pytest.mark.parametrize(
    ("published", "message"),
    [("pending", "has not booted yet"), ("garbage", "cannot be read"), ("ssh-ed25519 AAAA", "cannot be read")],
)
def test_an_invalid_host_key_is_refused(head, ssh, published, message):
    head.published = published
    with pytest.raises(RemoteError, match=message):
        ssh.run(["true"])
    assert head.opened == 0


def test_a_key_that_has_expired(head, ssh):
    head.key_valid_s = 0
    with pytest.raises(RemoteError, match="refuses the key"):
        ssh.run(["true"])


def test_a_connection_that_breaks_before_the_key_is_accepted(head, ssh):
    """paramiko calls that a failed authentication."""
    head.on_login = head.cut
    with pytest.raises(RemoteError, match="^no SSH connection to the head node: "):
        ssh.run(["true"])


def test_a_head_node_that_does_not_answer_whether_it_accepts_the_key(head, ssh, monkeypatch):
    """paramiko's exception is from its source (AuthHandler.wait_for_response). It raises it after 30 s."""

    def late(transport, user, key):
        raise paramiko.AuthenticationException("Authentication timeout.")

    monkeypatch.setattr(paramiko.Transport, "auth_publickey", late)
    with pytest.raises(RemoteError, match="^no SSH connection to the head node: Authentication timeout"):
        ssh.run(["true"])


def test_a_tunnel_that_is_refused_says_why(head, ssh):
    head.refuse_tunnel = "cannot connect: 10.0.0.4 is not there"
    with pytest.raises(RemoteError, match="cannot connect: 10.0.0.4 is not there"):
        ssh.run(["true"])


def test_an_endpoint_that_is_not_there(head, ssh):
    head.close()
    with pytest.raises(RemoteError, match="cannot be reached"):
        ssh.run(["true"])


def test_a_head_node_of_another_version_is_reported() -> None:
    """With Python 3.12's message for a missing package."""
    said = (
        "/usr/bin/python3: Error while finding module specification for 'gpucluster_node.jobs.environments' "
        "(ModuleNotFoundError: No module named 'gpucluster_node.jobs')\n"
    )
    with pytest.raises(RemoteError) as raised:
        Completed(1, "", said).check("the job was not accepted")
    assert raised.value.hint and "`gpucluster up`" in raised.value.hint
    with pytest.raises(RemoteError) as raised:
        Completed(1, "", "sbatch: error: invalid partition\n").check("the job was not accepted")
    assert raised.value.hint is None
