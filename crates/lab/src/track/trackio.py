# Shows a run in Trackio.
import time

# The longest wait, in seconds, until the package has written what it was given.
PATIENCE = 60


class Trackio:
    def __init__(self):
        self.run = None

    def show(self, run, rows, end):
        import trackio

        self.trackio = trackio
        stored = self.stored(run)
        if end and stored and (stored.config or {}).get("digest") == end["digest"]:
            return None
        there = self.steps(run)
        rows = [row for row in rows if row["step"] not in there]
        if rows:
            if self.run is None:
                self.run = self.open(run, {"state": "running"})
            for row in rows:
                self.run.log(row["values"], step=row["step"])
            self.check(run, [row["step"] for row in rows])
        if end and end["has_ended"]:
            self.end(run, end)
        return None

    def open(self, run, more):
        return self.trackio.init(
            project=run["project"],
            name=run["id"],
            group=run["experiment"],
            config={**run["config"], **more},
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def end(self, run, end):
        if self.run is not None:
            self.run.finish()
        # The package writes settings with the first step that follows.
        self.run = self.open(run, {**end["summary"], "digest": end["digest"]})
        values, table = dict(end["values"]), end["table"]
        if table:
            values["leaderboard"] = self.trackio.Table(columns=table["columns"], data=table["data"])
        values["verdict"] = self.trackio.Markdown(end["text"])
        self.run.log(values, step=end["step"])
        self.run.finish()
        self.check(run, [end["step"]])

    def stored(self, run):
        """The run as it is stored."""
        try:
            found = [other for other in self.trackio.Api().runs(run["project"]) if other.name == run["id"]]
        except ValueError:
            # There is no project of this name.
            return None
        return found[0] if found else None

    def steps(self, run):
        from trackio.sqlite_storage import SQLiteStorage

        return {row["step"] for row in SQLiteStorage.get_logs(run["project"], run["id"])}

    def check(self, run, steps):
        """Waits until steps are stored: the package writes in the background, and only warns if it cannot."""
        until = time.monotonic() + PATIENCE
        while not self.steps(run).issuperset(steps):
            if time.monotonic() > until:
                raise TimeoutError("Trackio has not stored everything: is its folder full, or read-only?")
            time.sleep(0.1)


# Only the store of this machine.
for name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_BUCKET_ID", "TRACKIO_WEBHOOK_URL"):
    os.environ.pop(name, None)
os.environ["TRACKIO_STORAGE_MODE"] = "sqlite"

answer(Trackio, lambda error: False)
