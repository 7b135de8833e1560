// Looks up who can get mail now: agents by the published policy, their personas at agentd.
import { hostname } from 'node:os';
import type { Client } from '../../../platform/link.ts';
import type { PolicySource } from '../../../policy/source.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import type { MaildConfig } from '../config.ts';
import type { Directory } from '../rules/recipients.ts';

export function makeDirectory(deps: {
  agentd: Pick<Client<typeof agentdRoutes>, 'listAgents'>;
  policy: Pick<PolicySource, 'listAgents'>;
  config: Pick<MaildConfig, 'domain' | 'aliases' | 'postmaster'>;
  isPerson(name: string): boolean;
}): (addresses: readonly string[]) => Promise<Directory> {
  const { agentd, policy, config, isPerson } = deps;
  const { aliases, postmaster } = config;
  const domains = [...new Set([config.domain, 'localhost', hostname().toLowerCase()])];
  const targets = Object.values(aliases).flat();

  /** Only an address of a group needs them, so that other mail does not wait for agentd. */
  const findPersonas = async (addresses: readonly string[]): Promise<Map<string, string>> => {
    if (![...addresses, ...targets].some((address) => /-all(@|$)/.test(address))) return new Map();
    const { agents } = await agentd.listAgents({});
    return new Map(
      agents.flatMap(({ name, persona }) => (persona === null ? [] : [[name, persona]])),
    );
  };

  return async (addresses) => ({
    domains,
    agents: await policy.listAgents(),
    personas: await findPersonas(addresses),
    aliases,
    postmaster,
    isPerson,
  });
}
