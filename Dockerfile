# docker build -t nmt . && docker run --gpus all -v "$PWD:/work" nmt nmt-train experiment=demo
FROM python:3.11-slim
WORKDIR /opt/nmt
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY nmt nmt
COPY conf conf
COPY hydra_plugins hydra_plugins
RUN pip install --no-cache-dir --no-deps .
WORKDIR /work
