// Finds who an address is: agents, people, and the aliases for them. Pure.
import type { SmtpRefusal } from './raw-message.ts';

export type Recipient = { kind: 'agent' | 'person'; name: string };

/** Who can get mail now. */
export type Directory = {
  /** In lower case, the first one is that of maild. */
  domains: readonly string[];
  agents: readonly string[];
  postmaster: string;
  isPerson(name: string): boolean;
};

export type Resolved = { ok: true; to: Recipient[] } | { ok: false; refusal: SmtpRefusal };

const refuse = (code: number, text: string): Resolved => ({ ok: false, refusal: { code, text } });

const ADDRESS = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:@([A-Za-z0-9.-]{1,253}))?$/;

export function resolveAddress(address: string, directory: Directory): Resolved {
  const { agents, domains, postmaster, isPerson } = directory;
  // A person may be called by a whole address.
  if (address.includes('@') && isPerson(address)) return one('person', address);
  const [, local, domain] = ADDRESS.exec(address) ?? [];
  if (local === undefined) return refuse(553, '5.1.3 that is no address here');
  if (domain !== undefined && !domains.includes(domain.toLowerCase()))
    return refuse(550, '5.7.1 mail for other hosts is not taken');
  if (local.toLowerCase() === 'postmaster') return one('person', postmaster);
  if (agents.includes(local)) return one('agent', local);
  if (isPerson(local)) return one('person', local);
  return refuse(550, `5.1.1 nobody here is called ${local}`);
}

const one = (kind: Recipient['kind'], name: string): Resolved => ({
  ok: true,
  to: [{ kind, name }],
});
