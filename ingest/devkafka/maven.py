"""Two ways to bring jars by Maven coordinate into a folder: Maven itself, and Ivy out of pyspark's own jars.

A fetcher puts what it can get into the folder and returns what its tool printed; the caller checks the files.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ingest.devkafka.java import java, java_home, package_folder
from ingest.devkafka.truststore import authorities, java_truststore

LIMIT_S = 900.0
DEPENDENCY_PLUGIN = "3.8.1"

POM = """<project>
<modelVersion>4.0.0</modelVersion>
<groupId>cohabit</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin>
<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>{plugin}</version>
<configuration><outputDirectory>{folder}</outputDirectory><artifactItems>
{items}
</artifactItems></configuration>
</plugin></plugins></build>
</project>
"""
POM_ITEM = (
    "<artifactItem><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><type>jar</type></artifactItem>"
)

IVY = """<ivy-module version="2.0">
<info organisation="cohabit" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>
{items}
</dependencies>
</ivy-module>
"""
IVY_ITEM = '<dependency org={} name={} rev={} transitive="false" conf="default->master"/>'


Fetch = Callable[[Sequence[str], Path], str]
"""Brings what can be had of coordinates `group:artifact:version` into a folder; returns what its tool printed."""


def fetchers() -> Iterator[Fetch]:
    """The ways open on this machine, best first."""
    if shutil.which("mvn"):
        yield by_maven
    if _ivy_jar():
        yield by_ivy


def by_maven(coordinates: Sequence[str], folder: Path) -> str:
    """One Maven run for all; mirrors, proxies and repositories are those of the user's own Maven settings."""
    items = "\n".join(POM_ITEM.format(*coordinate.split(":")) for coordinate in coordinates)
    pom = folder / "pom.xml"
    pom.write_text(POM.format(plugin=DEPENDENCY_PLUGIN, folder=folder, items=items))
    return _output_of(["mvn", "-B", "-q", "-f", str(pom), "dependency:copy"], {"JAVA_HOME": str(java_home())})


def by_ivy(coordinates: Sequence[str], folder: Path) -> str:
    """One Ivy run for all, from the public Maven repository."""
    items = "\n".join(IVY_ITEM.format(*map(quoteattr, coordinate.split(":"))) for coordinate in coordinates)
    module = folder / "ivy.xml"
    module.write_text(IVY.format(items=items))
    pattern = f"{folder}/[artifact]-[revision].[ext]"
    options = ["-ivy", str(module), "-cache", str(folder / "ivy"), "-retrieve", pattern, "-warn"]
    trust = _trust_options(folder / "authorities.jks")
    return _output_of([str(java()), *trust, "-cp", str(_ivy_jar()), "org.apache.ivy.Main", *options], {})


def _trust_options(store: Path) -> list[str]:
    """Java options that make it trust what this machine trusts; none where the machine says nothing."""
    certificates = authorities()
    if not certificates:
        return []
    store.write_bytes(java_truststore(certificates))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _output_of(command: list[str], extra: Mapping[str, str]) -> str:
    """What a command printed, errors included; how it ended shows in the files it left."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with subprocess.Popen(command, env={**os.environ, **extra}, stdout=output, stderr=output) as process:
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        output.seek(0)
        return output.read()


def _ivy_jar() -> Path | None:
    """Ivy as pyspark ships it."""
    pyspark = package_folder("pyspark")
    return None if pyspark is None else next(iter(sorted(pyspark.glob("jars/ivy-*.jar"))), None)
