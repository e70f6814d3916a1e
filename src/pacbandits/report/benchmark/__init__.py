"""Tables, figures and the report of a benchmark, from logged results alone."""

from pacbandits.report.benchmark.report import Chapter, benchmark_summary, report_html, report_markdown
from pacbandits.report.benchmark.separation import separation_chapters
from pacbandits.report.benchmark.tables import main_table

__all__ = ["Chapter", "benchmark_summary", "main_table", "report_html", "report_markdown", "separation_chapters"]
