// agentctl agent create and update, from a manifest file or from options.
import { fault } from '../../../wire/errors.ts';
import type { Manifest } from '../../../wire/manifest.ts';
import type { Args, Session } from '../command.ts';
import { readInput } from '../input.ts';
import type { RuntimeClient } from '../runtime.ts';
import { toYaml } from '../show/yaml.ts';
import { assertModelOffered } from './catalog.ts';

const OPTIONS = ['description', 'instructions', 'model', 'replicas', 'home'] as const;
const LISTS = ['allow', 'deny', 'persona'] as const;

const hasManifestOptions = (args: Args): boolean =>
  OPTIONS.some((name) => args.text(name) !== undefined) ||
  LISTS.some((name) => args.list(name).length > 0);

function readManifest(args: Args, base: () => Partial<Manifest>): string {
  const file = args.text('file');
  if (file === undefined) return `${toYaml(applyOptions(base(), args)).join('\n')}\n`;
  if (hasManifestOptions(args)) {
    throw fault('bad_usage', '--file cannot be combined with options that change the manifest', {
      hint: 'Edit the file, or omit --file.',
    });
  }
  return readInput(file);
}

export function applyOptions(base: Partial<Manifest>, args: Args): Record<string, unknown> {
  const { metadata, spec = {} } = base;
  const description = args.text('description') ?? metadata?.description;
  const allow = args.list('allow').length > 0 ? args.list('allow') : spec.tools?.allow;
  const deny = args.list('deny').length > 0 ? args.list('deny') : spec.tools?.deny;
  const tools = {
    ...(allow === undefined ? {} : { allow }),
    ...(deny === undefined ? {} : { deny }),
  };
  const model = args.text('model');
  const personas = readPersonas(args.list('persona'));
  const instructions = args.text('instructions');
  const persona = instructions === '-' ? readInput('-') : instructions;
  const replicas = args.number('replicas');
  const home = args.text('home');
  return {
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: { ...metadata, ...(description === undefined ? {} : { description }) },
    spec: {
      ...spec,
      ...(model === undefined ? {} : { model }),
      ...(personas === undefined ? {} : { personas }),
      ...(persona === undefined ? {} : { persona }),
      ...(replicas === undefined ? {} : { replicas }),
      ...(home === undefined ? {} : { home }),
      ...(Object.keys(tools).length === 0 ? {} : { tools }),
    },
  };
}

/** `base` alone stands for no other persona. */
function readPersonas(written: readonly string[]): string[] | undefined {
  if (written.length === 0) return undefined;
  const words = written.find((name) => /\s/.test(name));
  if (words !== undefined)
    throw fault('bad_usage', `--persona takes the name of a persona, not '${words}'`, {
      hint: 'Your own words go into --instructions; names are in: agentctl persona list',
    });
  return written.filter((name) => name !== 'base');
}

/** Returns what these personas expect, for an agent that is created without --allow. */
async function findExpectedTools(client: RuntimeClient, args: Args): Promise<string[]> {
  const refs = readPersonas(args.list('persona')) ?? [];
  if (refs.length === 0 || args.list('allow').length > 0) return [];
  const { personas } = await client.call('agentd', 'listPersonas', {});
  const named = refs.map((ref) => (ref.includes('/') ? ref : `roles/${ref}`));
  const found = personas.filter(({ ref }) => named.includes(ref));
  return [...new Set(found.flatMap(({ tools }) => tools))];
}

export async function create({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  if (!/^[a-z][a-z0-9-]{0,30}$/.test(name))
    throw fault('bad_usage', `invalid agent name '${name}'`, {
      hint: 'Use lowercase letters, digits and dashes, such as coder or night-watch.',
    });
  await assertModelOffered(runtime(), args.text('model'));
  const allow = await findExpectedTools(runtime(), args);
  const manifest_yaml = readManifest(args, () => ({
    metadata: { name },
    ...(allow.length === 0 ? {} : { spec: { tools: { allow } } }),
  }));
  const body = { manifest_yaml, create_only: true };
  const answer = await runtime().call('agentd', 'putAgent', { params: { name }, body });
  out.print(answer, () => [
    `${answer.agent.name} created: ${answer.agent.status}, model ${answer.agent.model}`,
    `It is: ${answer.agent.summary}`,
    `It may use: ${answer.agent.capabilities.join(', ') || 'only the basic tools'}`,
    `Create a task for it: agentctl task create "…" --agent ${answer.agent.name} --wait`,
  ]);
}

export async function update({ args, out, runtime }: Session): Promise<void> {
  const params = { name: args.positionals[0]! };
  if (args.text('file') === undefined && !hasManifestOptions(args)) {
    throw fault('bad_usage', 'agent update needs a change', {
      hint: 'Give --file or another option: agentctl agent update --help',
    });
  }
  await assertModelOffered(runtime(), args.text('model'));
  // Fails for an unknown agent: update never creates one.
  const { manifest } = await runtime().call('agentd', 'getAgent', { params });
  const manifest_yaml = readManifest(args, () => manifest as Partial<Manifest>);
  const answer = await runtime().call('agentd', 'putAgent', { params, body: { manifest_yaml } });
  out.print(answer, () => [
    `${answer.agent.name} updated (manifest sha256 ${answer.agent.manifest_hash.slice(0, 12)}…)`,
    `Capabilities: ${answer.agent.capabilities.join(', ') || 'only the basic tools'}`,
  ]);
}
