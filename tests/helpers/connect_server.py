"""A server of Spark Connect on this machine, as Spark comes with it."""

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pyspark


@contextmanager
def connect_server(folder, **settings):
    """The address of a server in a process of its own, which ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        **settings,
    }
    home = Path(pyspark.__file__).parent
    command = [home / "bin/spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[1]", *(word for pair in options.items() for word in ("--conf", "=".join(pair)))]
    log = folder / "server.log"
    with open(log, "w") as output:
        server = subprocess.Popen(
            [*command, "spark-internal"], stdout=output, stderr=output, env=os.environ | {"SPARK_HOME": str(home)}
        )
    try:
        _wait(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait(server, port, log):
    """Wait until the server answers."""
    until = time.monotonic() + 300
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"Spark Connect did not start: {log.read_text()[-2000:]}")
