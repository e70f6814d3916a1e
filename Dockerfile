# The service with its dashboard. Build: docker build -t pacbandits .
# Run with SQLite: docker run -p 8000:8000 -v pacbandits:/data pacbandits
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --prefix=/install '.[service]'

FROM python:3.12-slim
# Nobody in particular, who owns the data and the compiled kernels, and nothing else.
RUN useradd --create-home --uid 10001 pacbandits && mkdir /data && chown pacbandits /data
COPY --from=build /install /usr/local
USER pacbandits
ENV PACBANDITS_DATABASE=/data/pacbandits.db NUMBA_CACHE_DIR=/data/.numba PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["pacbandits"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
