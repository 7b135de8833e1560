-- The audit log's index as the first release made it: other tables than today's, and some rows.
CREATE TABLE terms (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE postings (term INTEGER, seq INTEGER, PRIMARY KEY (term, seq)) WITHOUT ROWID;
CREATE TABLE ids (hash INTEGER, seq INTEGER, PRIMARY KEY (hash, seq)) WITHOUT ROWID;
CREATE TABLE sources (origin TEXT PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE progress (id INTEGER PRIMARY KEY, next INTEGER NOT NULL);
INSERT INTO terms (id, name) VALUES (1, 'event agent.loaded'), (2, 'agent coder');
INSERT INTO postings (term, seq) VALUES (1, 0), (1, 1), (1, 2), (2, 0);
INSERT INTO sources (origin, seq) VALUES ('agentd 7b7ca805-08c5-4ba6-8521-9ba6e5fbd62d', 3);
INSERT INTO progress (id, next) VALUES (1, 3);
PRAGMA user_version = 1;
