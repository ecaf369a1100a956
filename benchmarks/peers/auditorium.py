"""dp_auditorium's hockey-stick tester on Laplace noise, in an environment of its own: outputs per second, and verdicts.

Usage: python auditorium.py DRAWS. It needs TensorFlow, etils and, on PYTHONPATH, the folder `python/dp_auditorium` of
github.com/google/differential-privacy; where google-vizier cannot be installed, with `__init__.py` emptied in it and in
`testers`, which import what this does not use. The model is one layer of 100 units. A claim of ε = 1 is judged for
noise of scale 1, which keeps it, and for smaller scales.
"""

import sys
import time

import numpy as np
import tensorflow as tf
from dp_auditorium.configs import privacy_property, property_tester_config
from dp_auditorium.testers import hockey_stick_tester

DRAWS, FALSE_ALARM = int(sys.argv[1]), 1e-6


def tester():
    model = tf.keras.Sequential([tf.keras.layers.Dense(100, activation="relu"), tf.keras.layers.Dense(1)])
    model.build((None, 1))
    training = property_tester_config.TrainingConfig(
        training_epochs=5, batch_size=1000, optimizer_learning_rate=1e-3, model_output_coordinate_bound=1.0
    )
    promise = privacy_property.ApproximateDp(epsilon=1.0, delta=0.0)
    config = property_tester_config.HockeyStickPropertyTesterConfig(training_config=training, approximate_dp=promise)
    return hockey_stick_tester.HockeyStickPropertyTester(config, model)


def main():
    rng = np.random.default_rng()
    for scale in (1.0, 0.95, 0.8, 0.5):
        outputs = rng.laplace(scale=scale, size=(2, DRAWS, 1)) + np.array([[[0.0]], [[1.0]]])
        judge, began = tester(), (time.process_time(), time.perf_counter())
        bound = judge.estimate_lower_bound(outputs[1], outputs[0], FALSE_ALARM)
        took = time.process_time() - began[0]
        print(
            f"dp_auditorium, Laplace of scale {scale:g}, {DRAWS:,} outputs on each: "
            f"{'broken' if judge.reject_property(bound) else 'no evidence'}; {2 * DRAWS / took / 1e6:.3g} million "
            f"outputs per second of processor time, {time.perf_counter() - began[1]:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
