// Takes mail to others for agents' calls, and shows what it would be. toold has decided about the
// call and a person about the mail before it gets here; what became of it is reported to agentd.

import type { Clock } from '../../../platform/clock.ts';
import { toTimestamp } from '../../../platform/clock.ts';
import type { Handlers } from '../../../platform/dispatch.ts';
import { deriveId } from '../../../platform/ids.ts';
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { fault } from '../../../wire/errors.ts';
import type { ExternalMail, externalMailRoutes } from '../../../wire/maild/external.ts';
import type { MaildConfig } from '../config.ts';
import {
  describeExternalMail,
  listRecipients,
  type MailSenderAddress,
} from '../rules/external-letter.ts';
import type { OutgoingRow, OutgoingStore } from '../store/outgoing.ts';
import { domainOf, portOf, type SmarthostConfig } from './smarthost-config.ts';

export type OutgoingDeps = {
  store: OutgoingStore;
  config: Pick<MaildConfig, 'smarthost' | 'domain'>;
  /** Domains whose mail stays here. */
  ownDomains: readonly string[];
  isHalted(): boolean;
  assertAuditAccepting(): void;
  onTaken(): void;
  clock: Clock;
};

export function makeOutgoingHandlers(deps: OutgoingDeps): Handlers<typeof externalMailRoutes> {
  const { store, config, clock } = deps;

  const requireSmarthost = (): SmarthostConfig => {
    if (config.smarthost !== undefined) return config.smarthost;
    throw fault('bad_request', 'no mail leaves this host: maild.smarthost is not set', {
      hint: 'Do without it, and say so. An operator can name a smarthost (docs/mail.md).',
    });
  };

  const assertOutside = (mail: ExternalMail): void => {
    const own = listRecipients(mail).find((one) => deps.ownDomains.includes(domainOf(one)));
    if (own === undefined) return;
    throw fault('bad_request', `${own} is an address of this host`, {
      hint: 'Use message.send for agents and people here.',
    });
  };

  return {
    async previewExternal({ body: { agent, mail } }) {
      const smarthost = requireSmarthost();
      assertOutside(mail);
      const from = senderOf(agent, config);
      const through = describeSmarthost(smarthost);
      const signedFor = smarthost.dkim?.domain;
      return { text: describeExternalMail(mail, { from, through, signedFor }) };
    },
    async sendExternal({ body }) {
      const { mail, ...call } = body;
      const known = await store.find(body.call_id);
      if (known !== undefined && known.status !== 'forgotten') return { mail: toTaken(known) };
      const smarthost = requireSmarthost();
      assertOutside(mail);
      if (deps.isHalted()) throw fault('halted', 'nothing is sent while the runtime is halted');
      deps.assertAuditAccepting();
      const id = deriveId<string>('mail', body.call_id);
      const content = canonicalJson(mail);
      const row = await store.take({
        ...call,
        id,
        message_id: `${id}@${domainOf(senderOf(body.agent, config).address)}`,
        content,
        content_hash: sha256Hex(content),
        ends_ms: clock.nowMs() + smarthost.give_up_s * 1000,
        recipients: listRecipients(mail).map((address) => ({
          address,
          status: 'due',
          code: null,
          enhanced: null,
          said: null,
        })),
      });
      deps.onTaken();
      return { mail: toTaken(row) };
    },
    async findExternal({ params }) {
      const row = await store.find(params.call_id);
      return { mail: row === undefined || row.status === 'forgotten' ? null : toTaken(row) };
    },
    forgetExternal: async ({ params }) => ({ forgotten: await store.forget(params.call_id) }),
  };
}

const toTaken = (row: OutgoingRow) => ({
  id: toWaitId(row),
  ends_at: toTimestamp(Number(row.ends_ms)),
});

/** Names one round of a call's mail. */
export const toWaitId = ({ id, round }: Pick<OutgoingRow, 'id' | 'round'>): string =>
  `${id}.${round}`;

export const senderOf = (
  agent: string,
  { smarthost, domain }: Pick<MaildConfig, 'smarthost' | 'domain'>,
): MailSenderAddress => ({ name: agent, address: smarthost?.from ?? `${agent}@${domain}` });

export const describeSmarthost = (smarthost: SmarthostConfig): string =>
  `${smarthost.host}:${portOf(smarthost)}`;
