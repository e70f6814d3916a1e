CREATE TABLE pacbandits_schema ("only" SERIAL NOT NULL, steps INTEGER, PRIMARY KEY ("only"));
CREATE TABLE experiments (
    name TEXT NOT NULL, protocol TEXT NOT NULL, contexts BYTEA NOT NULL, secret BYTEA NOT NULL,
    created BIGINT NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE standings (
    name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, rows BIGINT NOT NULL, held_out BIGINT NOT NULL,
    rewards BIGINT NOT NULL, too_late BIGINT NOT NULL, sequence BIGINT NOT NULL, head BYTEA NOT NULL,
    round INTEGER NOT NULL, round_rows BIGINT NOT NULL, planned BIGINT NOT NULL, designer TEXT NOT NULL,
    design_until BIGINT NOT NULL, seen_until BIGINT NOT NULL, look INTEGER NOT NULL, withdrawn TEXT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE assignments (
    experiment TEXT NOT NULL, "row" BIGINT NOT NULL, sequence BIGINT NOT NULL, unit TEXT NOT NULL,
    visit INTEGER NOT NULL, round INTEGER NOT NULL, action INTEGER NOT NULL, holdout INTEGER NOT NULL,
    at BIGINT NOT NULL, features BYTEA NOT NULL, propensities BYTEA NOT NULL, PRIMARY KEY (experiment, "row")
);
CREATE UNIQUE INDEX assignments_by_unit ON assignments (unit, experiment, visit);
CREATE TABLE outcomes (
    experiment TEXT NOT NULL, "row" BIGINT NOT NULL, kind INTEGER NOT NULL, sequence BIGINT NOT NULL,
    value FLOAT(53) NOT NULL, late INTEGER NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (experiment, "row", kind)
);
CREATE INDEX outcomes_in_sequence ON outcomes (experiment, sequence);
CREATE TABLE entries (
    experiment TEXT NOT NULL, sequence BIGINT NOT NULL, kind TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL,
    previous BYTEA NOT NULL, head BYTEA NOT NULL, PRIMARY KEY (experiment, sequence)
);
CREATE TABLE looks (
    experiment TEXT NOT NULL, number INTEGER NOT NULL, at BIGINT NOT NULL, rows BIGINT NOT NULL,
    sequence BIGINT NOT NULL, round INTEGER NOT NULL, samples BIGINT NOT NULL, withdrawn INTEGER NOT NULL,
    best FLOAT(53) NOT NULL, body TEXT NOT NULL, certificate TEXT, PRIMARY KEY (experiment, number)
);
CREATE TABLE service_keys (
    id TEXT NOT NULL, experiment TEXT NOT NULL, scope TEXT NOT NULL, digest BYTEA NOT NULL, created BIGINT NOT NULL,
    withdrawn INTEGER NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE service_signing ("only" SERIAL NOT NULL, secret BYTEA NOT NULL, PRIMARY KEY ("only"));
ALTER TABLE experiments ADD COLUMN pseudonymous INTEGER NOT NULL DEFAULT 0;
ALTER TABLE standings ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE assignments ADD COLUMN nonce TEXT NOT NULL DEFAULT '';
ALTER TABLE service_keys ADD COLUMN expires BIGINT NOT NULL DEFAULT 0;
ALTER TABLE service_keys ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE service_keys ADD COLUMN origins TEXT NOT NULL DEFAULT '';
UPDATE service_keys SET scope = 'assign read' WHERE scope = 'write';
UPDATE service_keys SET label = 'first start' WHERE scope = 'admin';
CREATE TABLE deleted_experiments (name TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (name));
CREATE TABLE service_sessions (
    id TEXT NOT NULL, key TEXT NOT NULL, digest BYTEA NOT NULL, until BIGINT NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE service_heartbeats (
    id TEXT NOT NULL, kind TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (id)
);
DROP TABLE service_signing;
CREATE TABLE webhooks (
    id TEXT NOT NULL, experiment TEXT NOT NULL, url TEXT NOT NULL, secret TEXT NOT NULL, format TEXT NOT NULL,
    events TEXT NOT NULL, created BIGINT NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE webhook_deliveries (
    id TEXT NOT NULL, experiment TEXT NOT NULL, webhook TEXT NOT NULL, event TEXT NOT NULL, cause TEXT NOT NULL,
    at BIGINT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, due BIGINT NOT NULL,
    tried BIGINT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (id)
);
CREATE UNIQUE INDEX webhook_deliveries_by_cause ON webhook_deliveries (webhook, event, cause);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (state, due);
INSERT INTO pacbandits_schema VALUES (1, 3);
