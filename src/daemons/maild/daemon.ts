// Assembles maild from its parts.
import { join } from 'node:path';
import { makeSeal } from '../../platform/copies/seal.ts';
import { type DaemonContext, type DaemonHandle, defineDaemon } from '../../platform/daemon.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { openPersonKeys } from '../../platform/person-keys.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { makePrivateDir } from '../../platform/state-dir.ts';
import { auditRefusals } from '../../policy/refusals.ts';
import { openPolicySource } from '../../policy/source.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import { MailboxName, maildRoutes } from '../../wire/maild.ts';
import { makeHandlers } from './api.ts';
import { type MaildConfig, maildConfig } from './config.ts';
import { makeDelivery } from './delivery.ts';
import { makeEraseCopies } from './erase-copies.ts';
import { makeMailAuthentication } from './intake/authenticate.ts';
import { makeDirectory } from './intake/directory.ts';
import { makeHandover } from './intake/handover.ts';
import { makeIntake } from './intake/intake.ts';
import { type MailListeners, openMailListeners } from './intake/listeners.ts';
import { makePermitsOutside } from './intake/permits-outside.ts';
import { makeMailbox } from './mailbox.ts';
import { hasMailbox, openMaildirs } from './maildir.ts';
import { makeDeliverNotices, makeFindTaskOwner } from './notices.ts';
import { openOutgoing } from './outgoing/open-outgoing.ts';
import { findOwnMaildirs } from './own-maildirs.ts';
import { makeMailParser } from './parser/parser.ts';
import { makeIncomingStore } from './store/incoming.ts';
import { MIGRATIONS } from './store/schema.ts';
import { makeStore } from './store/store.ts';

const AUDIT_WAIT_MS = 2_000;

async function start(
  context: DaemonContext<MaildConfig>,
): Promise<DaemonHandle<typeof maildRoutes>> {
  const { clock, config, log, stateDir, newId, failpoint } = context;
  const { domain, postmaster } = config;
  const audit = context.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const db = openSqlite({ file: join(stateDir, 'maild.sqlite'), migrations: MIGRATIONS, log });
  const outbox = await openOutbox({ db, source: 'maild', clock, append, log });
  const store = makeStore({ db, outbox, clock });
  const root = makePrivateDir(join(stateDir, 'mail'));
  const maildirs = openMaildirs(root, {
    own: findOwnMaildirs({ config, runtimeDir: context.runtimeDir, log }),
    onOwnFailed: (box, error) =>
      log.warn('a mailbox takes no mail; it goes into the state directory', { box, error }),
  });
  const delivery = makeDelivery({ store, maildirs, domain, clock, failpoint });
  const agentd = context.peer('agentd', agentdRoutes);
  const approvald = context.peer('approvald', approvaldRoutes);
  const people = openPersonKeys(join(stateDir, 'people'));

  const isPerson = (name: string): boolean =>
    MailboxName.safeParse(name).success &&
    (name === postmaster ||
      people.has(name) ||
      Object.hasOwn(config.maildirs, name) ||
      hasMailbox(root, name));
  const policy = openPolicySource({
    file: join(stateDir, 'policy', 'bundle.json'),
    log,
    clock,
    onRefused: auditRefusals({ daemon: 'maild', db, outbox, newId, log }),
  });
  const parser = makeMailParser({ log });
  const incoming = makeIncomingStore({ db, outbox, clock });
  const parts = { store: incoming, findByMessage: store.findByMessage, parser, clock, failpoint };
  const handover = makeHandover({ ...parts, delivery, agentd, approvald, domain, log });
  const intake = makeIntake({
    ...parts,
    directory: makeDirectory({ agentd, policy, config, isPerson }),
    permitsOutside: makePermitsOutside(policy),
    assertAuditAccepting: outbox.assertAuditAccepting,
    onTaken: handover.wake,
    newId,
  });
  const findTaskOwner = makeFindTaskOwner(agentd);
  const outgoing = await openOutgoing({ context, db, outbox, agentd, delivery, findTaskOwner });
  let listeners: MailListeners | undefined;

  return {
    handlers: makeHandlers({
      delivery,
      outgoing: outgoing.handlers,
      intake,
      deliverNotices: makeDeliverNotices({ findTaskOwner, delivery, config }),
      mailbox: makeMailbox(maildirs),
      eraseCopies: makeEraseCopies({ db, maildirs, seal: makeSeal({ db, log }), failpoint }),
      once: store.once,
      async assertMailbox(box) {
        if (!isPerson(box))
          throw fault('not_found', `there is no agent or person called ${box}`, {
            hint: `Write to an agent (agentctl list), or to a person with a key: ${people.names().join(', ') || 'none yet'}.`,
          });
      },
      domain,
      clock,
      newId,
    }),
    database: db,
    async begin() {
      const authenticate = makeMailAuthentication({ stateDir, people });
      const server = { intake, authenticate, domain, log };
      listeners = await openMailListeners({ config, runtimeDir: context.runtimeDir, server });
      handover.wake();
      outgoing.begin();
    },
    async drain() {
      await listeners?.close();
      await handover.stop();
      await outgoing.stop();
    },
    async stop() {
      parser.stop();
      policy.close();
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      await db.close();
    },
  };
}

export const maild = defineDaemon({
  name: 'maild',
  routes: maildRoutes,
  config: maildConfig,
  start,
});
