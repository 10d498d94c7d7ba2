"""Windows of EEG from EDF recordings. A data record of EDF holds one second of each channel, one after the other; the
reader seeks to each channel in each record and reads its 512 bytes, without a buffer. Cure: the records of a window are
adjacent, and are read at once."""

import numpy as np
import torch
from job import CLASSES, Training, model
from torch.utils.data import DataLoader, Dataset

DISEASE = "EDF recordings read channel by channel, 512 bytes at a time"
EXPECTED = ["small-reads"]

RECORDINGS = 6
SECONDS = 256
CHANNELS = 64
RATE = 256
WINDOW_S = 16
STRIDE_S = 2
EPOCHS = 3
RECORD = CHANNELS * RATE * 2
HEADER = 256 * (1 + CHANNELS)


def make(directory):
    generator = np.random.default_rng(1)
    for number in range(RECORDINGS):
        fields = f"{'0':8}{'X X X X':80}{'Startdate X':80}01.01.2000.00.00{HEADER:<8}{'':44}{SECONDS:<8}{1:<8}{CHANNELS:<4}"
        signals = "".join(f"{'EEG ' + str(channel):16}" for channel in range(CHANNELS))
        samples = generator.integers(-2000, 2000, (SECONDS, CHANNELS, RATE), dtype=np.int16)
        with open(directory / f"S{number:03}R01.edf", "wb") as file:
            file.write((fields + signals).ljust(HEADER)[:HEADER].encode())
            file.write(samples.tobytes())
    np.save(directory / "labels.npy", generator.integers(0, CLASSES, (RECORDINGS, SECONDS)))


class Edf:
    def __init__(self, path):
        self.file = open(path, "rb", buffering=0)

    def window_by_channel(self, second):
        signals = np.empty((CHANNELS, WINDOW_S * RATE), np.int16)
        for channel in range(CHANNELS):
            for record in range(WINDOW_S):
                self.file.seek(HEADER + (second + record) * RECORD + channel * RATE * 2)
                signals[channel, record * RATE:(record + 1) * RATE] = np.frombuffer(self.file.read(RATE * 2), np.int16)
        return signals

    def window(self, second):
        self.file.seek(HEADER + second * RECORD)
        records = np.frombuffer(self.file.read(WINDOW_S * RECORD), np.int16)
        return records.reshape(WINDOW_S, CHANNELS, RATE).transpose(1, 0, 2).reshape(CHANNELS, WINDOW_S * RATE)


class Windows(Dataset):
    def __init__(self, directory, reads_records):
        self.paths = sorted(directory.glob("*.edf"))
        self.labels = np.load(directory / "labels.npy")
        self.reads_records = reads_records
        self.recordings = {}
        self.per_recording = (SECONDS - WINDOW_S) // STRIDE_S

    def __len__(self):
        return len(self.paths) * self.per_recording

    def __getitem__(self, index):
        number, place = divmod(index, self.per_recording)
        if number not in self.recordings:
            self.recordings[number] = Edf(self.paths[number])
        recording = self.recordings[number]
        second = place * STRIDE_S
        signals = recording.window(second) if self.reads_records else recording.window_by_channel(second)
        mean = signals.reshape(CHANNELS, -1, 32)[:, :, 0].astype(np.float32) / 1000  # 8 Hz
        return torch.from_numpy(mean), int(self.labels[number, second])


def train(directory, cured):
    loader = DataLoader(Windows(directory, cured), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    Training(model(CHANNELS * WINDOW_S * RATE // 32, 128)).fit(loader, epochs=EPOCHS)
