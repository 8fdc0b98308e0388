"""A cloud's notice that it takes a machine away: the run is saved and ends with exit code 9 and a message."""

import http.server
import json
import os
import sys
import threading

import harness
from restarts_test import RestartsCase, STEPS

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dist"))
from namespaces import Network, permitted  # noqa: E402

# A server for one machine, in a process of its own; the notice comes when the file exists.
SERVER = """
import http.server, os, sys
class Metadata(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'TRUE' if os.path.exists(sys.argv[1]) else b'FALSE'
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(('127.0.0.1', 7869), Metadata).serve_forever()
"""


class Preemption(RestartsCase):
    def serve(self, answer):
        class Metadata(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                self.reply(200, "a-token")

            def do_GET(self):
                self.reply(*answer(self.path))

            def reply(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return {**os.environ, "REIGEN_METADATA_URL": f"http://127.0.0.1:{server.server_port}"}

    def test_a_notice_saves_the_run_and_ends_it(self):
        notice = threading.Event()
        env = self.serve(lambda path: (200, '{"action": "stop", "time": "2026-01-02T03:04:05Z"}') if notice.is_set()
                         else (404, ""))
        process = self.start("run", *STEPS, "--max-steps", 100000, "--workers", 2, "--restarts", 3, "--preemption", "aws",
                             env=env)
        self.wait_for_attempt("run", 1, process)
        notice.set()
        error = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 9, error)
        self.assertIn("leaving: this machine will be taken away (AWS: stop at 2026-01-02T03:04:05Z)", error)
        self.assertNotIn("restart 1", error)  # the only machine goes
        self.assert_resumable("run", error)
        self.assert_no_worker_left("run")
        end = [json.loads(line) for line in self.read("run/measurements/rank-0.jsonl").splitlines()][-1]
        self.assertEqual((end["kind"], end["reason"]), ("end", "preemption"))
        self.assertEqual(end["step"], self.manifest("run")["step"])
        self.assertIn("rank 0", end["notice"])
        self.assertIn("AWS: stop", end["notice"])
        self.assertIn("AWS: stop", json.loads(self.read("run/report.json"))["notes"][f"preemption after step {end['step']:,}"])
        self.assertIn("leaving: ", self.read("run/log.txt"))

    def test_a_server_that_does_not_answer_stops_nothing(self):
        env = {**os.environ, "REIGEN_METADATA_URL": f"http://127.0.0.1:{harness.free_port()}"}
        done = self.train("run", "--max-steps", 5, "--eval.every", 0, "--preemption", "gcp", env=env)
        self.assertIn("warning: --preemption: 127.0.0.1", done.stderr)
        self.assertEqual(len(self.losses("run")), 5)

    def test_the_job_continues_on_the_hosts_that_remain(self):
        if not permitted():
            self.skipTest("network namespaces are not permitted here")
        import subprocess
        with Network(2) as network:
            servers = [subprocess.Popen(network.command(host, sys.executable, "-c", SERVER, self.path(f"notice{host}")))
                       for host in range(2)]
            try:
                ssh = self.write("ssh", "#!/bin/sh\n"
                                 "while [ $# -gt 1 ]; do case $1 in -o|-p|-l) shift 2;; -*) shift;; *) break;; esac; done\n"
                                 f"case $1 in vm1) at={network.names[0]};; *) at={network.names[1]};; esac\n"
                                 "shift; exec ip netns exec $at sh -c \"$*\"\n")
                os.chmod(ssh, 0o755)
                process = self.start("run", *STEPS, "--max-steps", 100000, "--hosts", "vm1,vm2", "--restarts", 3, "--preemption", "gcp",
                                     prefix=network.command(0, "env", f"REIGEN_SSH={ssh}",
                                                            "REIGEN_METADATA_URL=http://127.0.0.1:7869"))
                self.wait_for_attempt("run", 1, process)
                self.write("notice1", "")
                self.wait_for_attempt("run", 2, process)
                process.terminate()
                error = process.communicate(timeout=120)[1]
                self.assertEqual(process.returncode, 130, error)
            finally:
                for server in servers:
                    server.kill()
                    server.wait()
        self.assertIn("restart 1 of 3", error)
        self.assertEqual([s["workers"] for s in self.starts("run")], [2, 1])
        self.assertIn("GCP: preempted", self.starts("run")[1]["cause"])


if __name__ == "__main__":
    harness.main()
