// Builds the chain of an approval request: the consequences of the call, and the run's other open
// calls. approvald classifies the whole chain by its worst link.
import { checkValue } from '../../../platform/check.ts';
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { computeGrant, isBasicTool } from '../../../policy/capabilities.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { CHAIN_LINKS_MAX, type ChainLink, Reversibility, Risk } from '../../../wire/approvald.ts';
import { isShortened, type Job } from '../attempts/job.ts';
import { neutralise, truncateText } from '../results/output.ts';
import { buildCallKey, type ToolRun } from '../runs.ts';
import type { TooldStore } from '../store/store.ts';
import type { Registry } from '../tools/registry.ts';
import type { Tool } from '../tools/tool.ts';
import type { ApprovedHosts } from './approved-hosts.ts';
import { canRunCommands } from './marks.ts';

export type Chains = {
  /** All links but the call itself. */
  linksFor(job: Job, input: unknown): Promise<ChainLink[]>;
  /** The links of the call's own consequences. */
  consequencesFor(job: Job, input: unknown): Promise<ChainLink[]>;
};

type SiblingCall = {
  callId: string;
  tool: string;
  arguments: Record<string, unknown> | undefined;
  /** Undefined when its arguments are not known. */
  key: string | undefined;
};
type Part = Pick<ChainLink, 'part' | 'what'>;

const WHAT_CHARS_MAX = 400;
const NETWORK = {
  class: 'network.external',
  risk: 'medium',
  reversibility: 'externally-reversible',
} as const;
const WORST = { risk: 'high', reversibility: 'irreversible' } as const;
const ONLY_READS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD']);

export function makeChains(options: {
  registry: Pick<Registry, 'get'>;
  policy: Pick<PolicySource, 'planAgentBox' | 'toolsFor'>;
  grants: Pick<ApprovedHosts, 'hostsFor'>;
  store: Pick<TooldStore, 'openCalls'>;
}): Chains {
  const { registry, policy, grants, store } = options;

  /**
   * A command can send wherever its box reaches; one outside the box that needs a host has the
   * run's whole egress.
   */
  const listHosts = async (run: ToolRun, tool: Tool, input: unknown): Promise<string[]> => {
    const isKnown = input !== undefined || tool.isDeclared === true;
    const named = ((isKnown && tool.touches?.(input)) || []).flatMap((touch) =>
      touch.action === 'net.connect' && !ONLY_READS.has(touch.method)
        ? [`${touch.host}:${touch.port}`]
        : [],
    );
    if (!canRunCommands(tool) && named.length === 0) return [];
    const { network } = await policy.planAgentBox(run.agent, await grants.hostsFor(run));
    const open = [...network.allow, ...network.granted].map(({ host, port }) => `${host}:${port}`);
    return [...new Set([...named, ...open])];
  };

  /** `input` undefined: not known, so the worst case is assumed. */
  const listConsequences = async (
    run: ToolRun,
    tool: Tool,
    input: unknown,
    part: ChainLink['part'],
  ) => {
    const links: ChainLink[] = [];
    const isCommand = tool.box !== undefined || tool.isDeclared === true;
    const hosts = isCommand ? await listHosts(run, tool, input) : [];
    const says = (what: string): Part => ({ part, what: shorten(what) });
    if (hosts.length > 0)
      links.push({ ...NETWORK, ...says(`${tool.name} can send to ${hosts.join(', ')}`) });
    if (input === undefined && tool.delegatesTo !== undefined)
      links.push({ ...WORST, class: tool.name, ...says(`${tool.name}, to an unknown agent`) });
    const handed = input === undefined ? undefined : tool.delegatesTo?.(input);
    if (handed === undefined) return links;
    const { agent, delegation } = handed;
    const has = {
      tools: await policy.toolsFor(agent),
      delegations: delegation ? [delegation] : [],
    };
    for (const name of computeGrant(has).tools) {
      const given = registry.get(name);
      if (given === undefined || isBasicTool(name)) continue;
      links.push({ ...assessTool(given), ...says(`${agent} may use ${name}`) });
    }
    return links;
  };

  const listSiblingLinks = async (run: ToolRun, other: SiblingCall): Promise<ChainLink[]> => {
    const tool = registry.get(other.tool);
    // A tool that was not granted is denied whatever a person decides here.
    if (tool === undefined || isBasicTool(tool.name) || !run.tools.has(tool.name)) return [];
    const parsed = other.arguments && checkValue(tool.input, other.arguments);
    const given = other.arguments === undefined ? '' : ` ${canonicalJson(other.arguments)}`;
    const what = shorten(`${tool.name}${given}`);
    const input = parsed?.success === true ? parsed.data : undefined;
    const own = { ...assessTool(tool, input), part: 'beside' as const, what };
    // Invalid arguments are rejected when the call is made.
    if (parsed?.success === false) return [own];
    return [own, ...(await listConsequences(run, tool, input, 'beside'))];
  };

  const listSiblings = async ({ run, callId, request, key }: Job): Promise<SiblingCall[]> => {
    const known = (await store.openCalls(run.runId)).map(
      ({ call_id: id, tool, arguments_hash: hash, arguments: text }): SiblingCall => {
        const kept = text === null ? undefined : (JSON.parse(text) as Record<string, unknown>);
        const given = kept === undefined || isShortened(kept) ? undefined : kept;
        return { callId: id, tool, arguments: given, key: buildCallKey(tool, hash) };
      },
    );
    const announced = (request.beside ?? []).map(
      ({ call_id: id, tool, arguments: given }): SiblingCall => {
        const hash = given === undefined ? undefined : sha256Hex(canonicalJson(given));
        return { callId: id, tool, arguments: given, key: hash && buildCallKey(tool, hash) };
      },
    );
    // The record overrides the runner's account of the same call.
    const others = new Map([...announced, ...known].map((call) => [call.callId, call]));
    others.delete(callId);
    // An equal call adds nothing to the chain.
    return [...others.values()].filter((call) => call.key !== key);
  };

  const broughtBy: Chains['consequencesFor'] = async (job, input) =>
    worstLinks(await listConsequences(job.run, job.tool!, input, 'brings'));

  return {
    consequencesFor: broughtBy,
    async linksFor(job, input) {
      const others = await listSiblings(job);
      const links = await Promise.all(others.map((other) => listSiblingLinks(job.run, other)));
      return worstLinks([...(await broughtBy(job, input)), ...links.flat()]);
    },
  };
}

/** Without its input, a tool counts at its worst. */
function assessTool(tool: Tool, input?: unknown): Omit<ChainLink, 'part' | 'what'> {
  const { name, risk, view } = tool;
  const own = input === undefined ? undefined : tool.assessReversibility?.(input);
  const reversibility = own ?? tool.reversibility;
  return { class: view.capabilities[0] ?? name, risk, reversibility };
}

const shorten = (text: string): string => truncateText(neutralise(text), WHAT_CHARS_MAX);

/** Keeps the riskiest links when there are too many, so that a run cannot hide them in a crowd. */
export function worstLinks(links: readonly ChainLink[]): ChainLink[] {
  const distinct = [...new Map(links.map((link) => [JSON.stringify(link), link])).values()];
  if (distinct.length <= CHAIN_LINKS_MAX) return distinct;
  const rank = ({ risk, reversibility }: ChainLink): number =>
    Risk.options.indexOf(risk) * 10 + Reversibility.options.indexOf(reversibility);
  return distinct.sort((a, b) => rank(b) - rank(a)).slice(0, CHAIN_LINKS_MAX);
}
