# Shows a run in Weights & Biases.
import glob
import shutil

# The file in a run's folder which says that the whole run is in it.
MARK = "reverie.digest"


class WeightsAndBiases:
    def __init__(self):
        self.run = None
        # The first step that is not there yet.
        self.next_step = 0
        self.grouped = set()

    def show(self, run, rows, end):
        import wandb

        if self.run is None:
            if end and run["mode"] == "offline" and end["digest"] in self.written(run):
                return None
            self.open(wandb, run)
            if end and self.run.summary.get("digest") == end["digest"]:
                self.run.finish(exit_code=end["exit_code"])
                return None
        for row in rows:
            self.log(row["values"], row["step"], row["seconds"], row.get("trial"))
        if end:
            self.end(wandb, run, end)
        return None

    def open(self, wandb, run):
        os.makedirs(run["folder"], exist_ok=True)
        # Only what Reverie sends: nothing of this machine, its packages and its programs.
        settings = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            disable_job_creation=True,
            save_code=False,
            silent=True,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        self.run = wandb.init(
            project=run["project"],
            entity=run["entity"],
            id=run["id"],
            name=run["id"],
            group=run["experiment"],
            tags=run["tags"],
            config=run["config"],
            mode=run["mode"],
            # Without a server, each process writes the whole run.
            resume="allow" if run["mode"] == "online" else None,
            dir=run["folder"],
            settings=settings,
        )
        self.next_step = self.run.step
        if self.run.resumed:
            self.run.config.update(run["config"], allow_val_change=True)

    def log(self, values, step, seconds, trial=None):
        if step < self.next_step:
            return
        if trial and trial not in self.grouped:
            if not self.grouped:
                self.run.define_metric("questions")
            self.grouped.add(trial)
            self.run.define_metric(f"{trial}/*", step_metric="questions")
        self.run.log({**values, "_timestamp": seconds}, step=step)
        self.next_step = step + 1

    def end(self, wandb, run, end):
        table = end["table"]
        if table:
            shown = wandb.Table(columns=table["columns"], data=table["data"], allow_mixed_types=True)
            self.log({**end["values"], "leaderboard": shown}, end["step"], end["seconds"])
        self.run.summary.update({**end["summary"], "digest": end["digest"]})
        folder = os.path.dirname(self.run.dir)
        self.run.finish(exit_code=end["exit_code"])
        if run["mode"] == "offline":
            with open(os.path.join(folder, MARK), "w", encoding="utf-8") as file:
                file.write(end["digest"])
            # The new folder has all that the earlier ones have.
            for other in self.folders(run):
                if not os.path.samefile(other, folder):
                    shutil.rmtree(other, ignore_errors=True)

    def folders(self, run):
        return glob.glob(os.path.join(glob.escape(run["folder"]), "*", f"offline-run-*-{run['id']}"))

    def written(self, run):
        """The digests of the ends that are in folders already."""
        for folder in self.folders(run):
            try:
                with open(os.path.join(folder, MARK), encoding="utf-8") as file:
                    yield file.read()
            except OSError:
                pass


def may_pass(error):
    return type(error).__name__ in ("CommError", "ServerError", "WaitTimeoutError", "MailboxClosedError")


answer(WeightsAndBiases, may_pass)
