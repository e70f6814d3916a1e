"""A benchmark for people: tables, figures and a page, from logged results alone."""

from pacbandits.report.benchmark.page import Chapter, report_html, report_markdown
from pacbandits.report.benchmark.separation import separation_chapters
from pacbandits.report.benchmark.tables import main_table

__all__ = ["Chapter", "main_table", "report_html", "report_markdown", "separation_chapters"]
