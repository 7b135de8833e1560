// Finds who an address is: agents, people, and the aliases for them. Pure.
import { REPLY_MAILBOX } from '../../../wire/approvald/replies.ts';
import type { SmtpRefusal } from './raw-message.ts';

/** The service: approvald, for what people reply to its requests. */
export type Recipient = { kind: 'agent' | 'person' | 'service'; name: string };

/** Who can get mail now. */
export type Directory = {
  /** In lower case, the first one is that of maild. */
  domains: readonly string[];
  agents: readonly string[];
  /** The persona of each agent that has one. */
  personas: ReadonlyMap<string, string>;
  /** Names that the operator gave to several, which may be aliases, too. */
  aliases: Readonly<Record<string, readonly string[]>>;
  postmaster: string;
  isPerson(name: string): boolean;
};

export type Resolved = { ok: true; to: Recipient[] } | { ok: false; refusal: SmtpRefusal };

const refuse = (code: number, text: string): Resolved => ({ ok: false, refusal: { code, text } });

const ADDRESS = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:@([A-Za-z0-9.-]{1,253}))?$/;

export function resolveAddress(address: string, directory: Directory): Resolved {
  const { domains, isPerson } = directory;
  // A person may be called by a whole address.
  if (address.includes('@') && isPerson(address)) return one('person', address);
  const [, local, domain] = ADDRESS.exec(address) ?? [];
  if (local === undefined) return refuse(553, '5.1.3 that is no address here');
  if (domain !== undefined && !domains.includes(domain.toLowerCase()))
    return refuse(550, '5.7.1 mail for other hosts is not taken');
  return resolveName(local, directory, []);
}

const ALIASES_DEEP_MAX = 8;
/** Whom other programs of a host write to. */
const POSTMASTER_NAMES = new Set(['postmaster', 'root', 'mailer-daemon']);

function resolveName(local: string, directory: Directory, above: readonly string[]): Resolved {
  const { agents, aliases, personas, postmaster, isPerson } = directory;
  // Nobody else can have this name: what is sent to it is for approvald only.
  if (local.toLowerCase() === REPLY_MAILBOX) return one('service', REPLY_MAILBOX);
  if (Object.hasOwn(aliases, local) && !above.includes(local)) {
    if (above.length >= ALIASES_DEEP_MAX)
      return refuse(550, `5.4.6 the alias ${above[0]} is nested too deeply`);
    const found = aliases[local]!.map((name) => resolveName(name, directory, [...above, local]));
    return (
      found.find(({ ok }) => !ok) ?? {
        ok: true,
        to: found.flatMap((one) => (one.ok ? one.to : [])),
      }
    );
  }
  if (agents.includes(local)) return one('agent', local);
  if (isPerson(local)) return one('person', local);
  if (POSTMASTER_NAMES.has(local.toLowerCase())) return one('person', postmaster);
  const group =
    local === 'all'
      ? agents
      : local.endsWith('-all')
        ? agents.filter((name) => personas.get(name) === local.slice(0, -'-all'.length))
        : [];
  if (group.length > 0) return { ok: true, to: group.map((name) => ({ kind: 'agent', name })) };
  return refuse(550, `5.1.1 nobody here is called ${local}`);
}

const one = (kind: Recipient['kind'], name: string): Resolved => ({
  ok: true,
  to: [{ kind, name }],
});
