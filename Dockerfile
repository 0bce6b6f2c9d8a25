# Three stages: `build` compiles the shipped binaries, `test` runs the whole test command (it needs --privileged and a
# writable /sys/fs/cgroup), `dist` holds only the binaries, to be copied out:
#   docker build --target dist -o type=local,dest=out .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo xtask dist
RUN target/dist/berthd man > berthd.8 && target/dist/berthd man berth-config.toml.5 > berth-config.toml.5

FROM golang:1.26-bookworm AS go

FROM build AS test
COPY --from=go /usr/local/go /usr/local/go
ENV PATH=/usr/local/go/bin:$PATH
CMD ["cargo", "xtask", "test"]

FROM scratch AS dist
COPY --from=build /src/target/dist/berthd /usr/bin/berthd
COPY --from=build /src/target/dist/berth-shim /usr/bin/berth-shim
COPY --from=build /src/berthd.8 /usr/share/man/man8/berthd.8
COPY --from=build /src/berth-config.toml.5 /usr/share/man/man5/berth-config.toml.5
COPY --from=build /src/systemd/berthd.service /usr/lib/systemd/system/berthd.service
COPY --from=build /src/LICENSE /usr/share/doc/berth/LICENSE
