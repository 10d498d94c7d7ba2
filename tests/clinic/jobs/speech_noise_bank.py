"""Keyword spotting with background noise: __getitem__ loads a noise recording of half a minute for each utterance, and takes
one second of it. Cure: the six recordings are loaded once."""

import wave

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "a background noise file loaded for each utterance"
EXPECTED = ["hot-small-file"]

RATE = 16_000
UTTERANCES = 1200
NOISES = ["doing_the_dishes", "dude_miaowing", "exercise_bike", "pink_noise", "running_tap", "white_noise"]
EPOCHS = 3


def make(directory):
    generator = np.random.default_rng(2)
    np.save(directory / "utterances.npy", generator.integers(-9000, 9000, (UTTERANCES, RATE), dtype=np.int16))
    np.save(directory / "labels.npy", generator.integers(0, CLASSES, UTTERANCES))
    folder = directory / "_background_noise_"
    folder.mkdir()
    for name in NOISES:
        with wave.open(str(folder / f"{name}.wav"), "wb") as recording:
            recording.setnchannels(1)
            recording.setsampwidth(2)
            recording.setframerate(RATE)
            recording.writeframes(generator.integers(-3000, 3000, 30 * RATE, dtype=np.int16).tobytes())


def load_wav(path):
    with wave.open(str(path), "rb") as recording:
        frames = recording.readframes(recording.getnframes())
    return np.frombuffer(frames, np.int16).astype(np.float32) / 32768


class SpeechCommands(Dataset):
    def __init__(self, directory, keep_noise):
        self.utterances = np.load(directory / "utterances.npy")
        self.labels = np.load(directory / "labels.npy")
        self.noise_paths = sorted((directory / "_background_noise_").glob("*.wav"))
        self.noises = [load_wav(path) for path in self.noise_paths] if keep_noise else None

    def __len__(self):
        return len(self.utterances)

    def noise(self):
        number = int(torch.randint(len(self.noise_paths), ()))
        recording = self.noises[number] if self.noises is not None else load_wav(self.noise_paths[number])
        begin = int(torch.randint(len(recording) - RATE, ()))
        return recording[begin:begin + RATE]

    def __getitem__(self, index):
        speech = self.utterances[index].astype(np.float32) / 32768
        mixed = speech + 0.1 * self.noise()
        return torch.from_numpy(mixed), int(self.labels[index])


def train(directory, cured):
    loader = DataLoader(SpeechCommands(directory, cured), batch_size=32, shuffle=True, num_workers=2,
                        persistent_workers=True)
    Training(model(RATE, 48)).fit(loader, epochs=EPOCHS)
