"""What processors_apart saw while a sample was taken: whether the two processors shared one link to memory."""
import json
import statistics
import subprocess
import threading

TOGETHER, APART, MOVED = "together", "apart", "moved"
# Nanoseconds to another processor and back: between what one core complex takes, under anything that runs there, and what two take.
BORDER = 200


class Watch:
    def __init__(self, program):
        self.seen = []  # (seconds since 1970, nanoseconds), ascending; appended to by the reader alone
        self.process = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            one = json.loads(line)
            self.seen.append((one["t"], one["ns"]))

    def over(self, start, end):
        """TOGETHER or APART when nine of ten measurements between the two times say so, else MOVED; None when there was none."""
        if self.process.poll() is not None:
            raise SystemExit(f"{self.process.args[0]} ended with {self.process.returncode}")
        between = [ns for t, ns in self.seen if start <= t <= end]
        if not between:
            return None
        share = statistics.fmean(ns >= BORDER for ns in between)
        return APART if share >= 0.9 else TOGETHER if share <= 0.1 else MOVED

    def close(self):
        self.process.terminate()
        self.process.wait()
