// Assembles what sends mail to others.
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { DaemonContext } from '../../../platform/daemon.ts';
import type { Handlers } from '../../../platform/dispatch.ts';
import type { Client } from '../../../platform/link.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import { readRestoreRecord } from '../../../platform/restore-record.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import type { externalMailRoutes } from '../../../wire/maild/external.ts';
import type { MaildConfig } from '../config.ts';
import type { Delivery } from '../delivery.ts';
import type { FindTaskOwner } from '../notices.ts';
import { makeOutgoingStore } from '../store/outgoing.ts';
import { makeOutgoingHandlers, senderOf } from './outgoing.ts';
import { makeMailReports } from './reports.ts';
import { readSmarthostSecrets } from './secrets.ts';
import type { HandToSmarthost } from './smarthost.ts';
import { domainOf } from './smarthost-config.ts';
import { makeTransfer } from './transfer.ts';

export type Outgoing = {
  handlers: Handlers<typeof externalMailRoutes>;
  begin(): void;
  stop(): Promise<void>;
};

export async function openOutgoing(deps: {
  context: DaemonContext<MaildConfig>;
  db: Database;
  outbox: Outbox;
  agentd: Client<typeof agentdRoutes>;
  delivery: Delivery;
  findTaskOwner: FindTaskOwner;
}): Promise<Outgoing> {
  const { context, db, outbox, agentd, delivery, findTaskOwner } = deps;
  const { clock, config, log, stateDir, failpoint } = context;
  const { smarthost, domain } = config;
  const store = makeOutgoingStore({ db, outbox, clock });
  const secrets = smarthost && readSmarthostSecrets(smarthost, config.credentials_dir);
  // Mail that is in a backup may have been sent after that.
  const isRestored = readRestoreRecord(stateDir) !== undefined;
  const unsure = await store.markLeftUnknown(isRestored ? ['due', 'handing'] : ['handing']);
  if (unsure > 0) log.warn('mails may have been sent before the restart', { count: unsure });
  const haltFile = join(stateDir, 'HALT');
  const isHalted = (): boolean => existsSync(haltFile);
  const reports = makeMailReports({
    store,
    agentd,
    findTaskOwner,
    delivery,
    config,
    clock,
    log,
  });
  const hand: HandToSmarthost = async (mail, signal) => {
    const { makeHandToSmarthost } = await import('./smarthost.ts');
    const name = domainOf(senderOf('', config).address);
    const facts = { name, password: secrets?.password };
    return makeHandToSmarthost(smarthost!, facts)(mail, signal);
  };
  const transfer =
    smarthost &&
    makeTransfer({
      store,
      config,
      hand,
      signer: secrets?.signer,
      agentd,
      outbox,
      isHalted,
      onEnded: reports.wake,
      clock,
      log,
      failpoint,
    });
  return {
    handlers: makeOutgoingHandlers({
      store,
      config,
      ownDomains: [domain, 'localhost', hostname().toLowerCase()],
      isHalted,
      assertAuditAccepting: outbox.assertAuditAccepting,
      onTaken: () => transfer?.wake(),
      clock,
    }),
    begin() {
      transfer?.wake();
      reports.wake();
    },
    async stop() {
      await transfer?.stop();
      await reports.stop();
    },
  };
}
