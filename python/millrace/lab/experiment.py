"""Every condition (shards, workers, fraction), with several seeds each, and what they add up to."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from millrace.lab import results, shards, training
from millrace.lab._errors import LabError
from millrace.lab.datasets import Dataset
from millrace.lab.models import for_workers, worker_norms


@dataclass
class Plan:
    dataset: Dataset
    make_model: Callable
    model_name: str
    device: torch.device
    options: argparse.Namespace
    processes: training.Processes = field(default_factory=training.Processes)

    def check(self) -> None:
        """Raises LabError if the conditions cannot be trained: wrong numbers of workers, for example."""
        for workers in self.options.workers:
            shards.check(len(self.dataset.train), workers, self.batch(workers))
            self.processes.mine(workers)

    def batch(self, workers: int) -> int:
        if self.options.global_batch:
            return self.options.global_batch // workers
        return self.options.batch or 8

    def recipe(self, workers: int) -> training.Recipe:
        options = self.options
        return training.Recipe(epochs=options.epochs, batch=self.batch(workers), lr=options.lr,
                               scaling=options.scaling, momentum=options.momentum, weight_decay=options.weight_decay,
                               warmup=options.warmup, optimizer=options.optimizer, precision=options.precision,
                               statistics=options.statistics)

    def run(self, progress: Any, save: Callable) -> dict:
        """Returns the report. Saves it after every condition, so that an interrupted run loses little."""
        report = self._head()
        self._advise(report)
        if self.options.skew_only:
            return report
        samples = training.Samples(self.dataset, self.device, training.compute_dtype(self.options.precision))
        conditions = [(kind, workers, fraction) for kind in self.options.shards for workers in self.options.workers
                      for fraction in self.options.fractions]
        for number, condition in enumerate(conditions):
            report["conditions"].append(self._condition(samples, *condition, progress, number, len(conditions)))
            report["findings"] = results.findings(report["conditions"])
            save(report)
        return report

    def _condition(self, samples: training.Samples, kind: str, workers: int, fraction: float, progress: Any,
                   number: int, count: int) -> dict:
        recipe, runs = self.recipe(workers), []
        for repeat in range(self.options.repeats):
            seed = self.options.seed + repeat
            held = shards.Shards(self._arrangement(kind, seed), workers, fraction, seed)

            def show(epoch: int, run: training.Run, repeat: int = repeat) -> None:
                part = (repeat + (epoch + 1) / recipe.epochs) / self.options.repeats
                progress.show((number + part) / count, f"{kind} shards, {workers} workers, Q = {fraction:g}, seed "
                              f"{self.options.seed + repeat}: epoch {epoch + 1}, accuracy {100 * run.accuracy[-1]:.1f} %")

            trainer = training.Trainer(samples, self.make_model, held, recipe, seed, self.processes)
            run = trainer.run(show)
            runs.append({"seed": seed, "accuracy": run.accuracy, "loss": results.finite(run.loss), "skew": run.skew,
                         "seconds": run.seconds, "exchanged_per_epoch": run.exchanged_per_epoch,
                         "stored_max": run.stored_max})
        return results.condition(runs, shards=kind, workers=workers, fraction=fraction, shuffle=held.shuffle,
                                 batch_per_worker=recipe.batch, global_batch=trainer.global_batch, lr=trainer.lr,
                                 updates=run.updates, sample_bytes=self.dataset.sample_bytes)

    def _arrangement(self, kind: str, seed: int) -> Any:
        return shards.arrange(self.dataset.train_labels.numpy(), kind, seed)

    def _head(self) -> dict:
        recipe = asdict(self.recipe(self.options.workers[0]))
        del recipe["batch"]
        return {"format": "millrace-lab", "version": 1, "torch": torch.__version__, "device": str(self.device),
                "ranks": self.processes.count if self.options.ranks else None, "backend": self.options.ranks,
                "model": self.model_name, "recipe": recipe,
                "seeds": [self.options.seed + repeat for repeat in range(self.options.repeats)],
                "dataset": {"name": self.dataset.name, "train": len(self.dataset.train), "test": len(self.dataset.test),
                            "classes": self.dataset.class_count, "sample_bytes": self.dataset.sample_bytes},
                "advice": [], "conditions": [], "findings": []}

    def _tried_model(self) -> torch.nn.Module:
        """The model, which has classified two samples."""
        model, dataset = for_workers(self.make_model(self.dataset), 1), self.dataset
        if not any(each.requires_grad for each in model.parameters()):
            raise LabError(f"--model {self.model_name} has no parameters that could be trained")
        try:
            with torch.no_grad():
                shape = tuple(model.eval()(dataset.train[:2].float()).shape)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise LabError(f"--model {self.model_name} cannot take samples of the shape {dataset.shape}: {error}; make the "
                           "model for this dataset, or the dataset for this model") from error
        samples = len(dataset.train[:2])
        if len(shape) != 2 or shape[0] != samples or shape[1] < dataset.class_count:
            raise LabError(f"--model {self.model_name} returns a tensor of the shape {shape} for {samples} samples, but the "
                           f"labels are 0 to {dataset.class_count - 1}: return ({samples}, {dataset.class_count}), a number for "
                           "each sample and class")
        return model

    def _advise(self, report: dict) -> None:
        labels = self.dataset.train_labels.numpy()
        has_norm = bool(worker_norms(self._tried_model()))
        for kind in self.options.shards:
            for workers in self.options.workers:
                advice = shards.advise(labels, self._arrangement(kind, self.options.seed), workers, self.options.epochs,
                                       self.options.seed, tuple(self.options.fractions))
                report["advice"].append({"shards": kind, "workers": workers, "skew": advice.first,
                                         "random_skew": advice.random, "fraction": advice.fraction,
                                         "skew_with_it": advice.middle,
                                         "sentence": advice.sentence(results.KINDS[kind], has_norm)})
