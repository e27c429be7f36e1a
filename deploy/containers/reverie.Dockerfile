# The `reverie` binary with ONNX Runtime and PDFium, for any x86-64 machine of the last ten years, or arm64.
#   docker build -f deploy/containers/reverie.Dockerfile -t reverie/reverie:0.1.0 .
FROM rust:1.95-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends build-essential python3 python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# What `make` takes from the machine that builds is turned off: the binary runs elsewhere.
ENV GGML_AVX512=OFF GGML_AVX512_VNNI=OFF GGML_AVX512_VBMI=OFF
ENV REVERIE_HOME=/libraries
RUN make build && strip target/release/reverie && target/release/reverie models pull onnxruntime pdfium

FROM debian:bookworm-20251020-slim
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates libgomp1 libstdc++6 && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home reverie
COPY --from=build /source/target/release/reverie /usr/local/bin/reverie
COPY --from=build /libraries/models/onnxruntime /libraries/models/pdfium /usr/local/lib/reverie/
# Models and bundles come into REVERIE_HOME: a volume.
ENV REVERIE_LIBRARIES=/usr/local/lib/reverie REVERIE_HOME=/reverie
RUN mkdir /reverie && chown 1000:1000 /reverie
USER 1000
EXPOSE 8080
ENTRYPOINT []
CMD ["reverie", "--help"]
