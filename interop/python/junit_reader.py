"""Prints the counts of JUnit XML files as junitparser reads them, and the outcome of each case."""

import sys

from junitparser import JUnitXml

for name in sys.argv[1:]:
    report = JUnitXml.fromfile(name)
    print(report.tests, report.failures, report.errors, report.skipped)
    for suite in report:
        for case in suite:
            print(suite.name, "|", case.name, "|", " ".join(type(r).__name__ for r in case.result))
