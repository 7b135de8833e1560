// Serves the views of personas: the layers that there are, and what an agent's is composed of.
import type { HandlerContext } from '../../../platform/dispatch.ts';
import type { agentdRoutes, PersonaView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import { type DeclaredAgent, hashPersona } from '../manifests/read-manifest.ts';
import type { AgentdStore } from '../store/store.ts';
import { describeMissing } from './compose.ts';
import { kindOf, nameOf, type PersonaLibrary, readHead } from './library.ts';
import { lintPersonas } from './lint.ts';

type Routes = typeof agentdRoutes;

export function makePersonaHandlers(deps: {
  store: Pick<AgentdStore, 'agents' | 'agent'>;
  library: () => PersonaLibrary;
}) {
  const { store, library } = deps;
  const listUsers = async (): Promise<Map<string, string[]>> => {
    const users = new Map<string, string[]>();
    for (const { row, spec } of await store.agents()) {
      if (row.status === 'removed') continue;
      for (const ref of new Set(spec.composed?.layers.map(({ layer }) => layer)))
        users.set(ref, [...(users.get(ref) ?? []), row.name]);
    }
    return users;
  };
  const toView = (ref: string, users: ReadonlyMap<string, string[]>): PersonaView => {
    const files = library().files.get(ref) ?? [];
    return {
      ref,
      kind: kindOf(ref),
      name: nameOf(ref),
      ...readHead(files),
      tools: [...new Set(files.flatMap(({ front }) => front.tools ?? []))],
      extends: [...new Set(files.flatMap(({ front }) => front.extends ?? []))],
      sources: files.map(({ source }) => source),
      agents: users.get(ref) ?? [],
    };
  };
  return {
    async listPersonas() {
      const users = await listUsers();
      const refs = [...library().files.keys()].sort();
      return {
        personas: refs.map((ref) => toView(ref, users)),
        problems: listPersonaProblems(library()),
      };
    },
    async getPersona({ params: { kind, name } }: HandlerContext<Routes['getPersona']>) {
      const ref = kind === 'base' ? 'base' : `${kind}/${name}`;
      const files = library().files.get(ref);
      const broken = library().broken.get(ref)?.[0];
      if (files === undefined && broken !== undefined)
        throw fault('bad_config', `${broken.file}${at(broken)}: ${broken.message}`, {
          hint: broken.hint,
        });
      if (files === undefined) {
        const { message, hint } = describeMissing(ref);
        throw fault('not_found', message, { hint });
      }
      return {
        persona: toView(ref, await listUsers()),
        layers: files.map(({ source, file, sha256, body }) => ({
          layer: ref,
          source,
          file,
          sha256,
          text: body,
        })),
      };
    },
    async getAgentPersona({ params: { name } }: HandlerContext<Routes['getAgentPersona']>) {
      const { row, spec } = await store.agent(name);
      return {
        agent: row.name,
        role: spec.composed?.role ?? null,
        purpose: spec.composed?.purpose ?? null,
        text: spec.persona,
        sha256: hashPersona(spec),
        layers: (spec.composed?.layers ?? []).map((layer) => ({
          ...layer,
          text: findText(spec, layer, library()),
        })),
      };
    },
  };
}

const at = ({ line }: FileProblem): string => (line === null ? '' : `:${line}`);

/** Null: the file has changed since, and the change is not in force. */
function findText(
  spec: DeclaredAgent,
  { layer, file, sha256 }: { layer: string; file: string; sha256: string },
  { files }: PersonaLibrary,
): string | null {
  if (layer === 'inline') return spec.manifest.spec.persona ?? spec.persona;
  const found = files.get(layer)?.find((other) => other.file === file && other.sha256 === sha256);
  return found?.body ?? null;
}

export function listPersonaProblems(library: PersonaLibrary): FileProblem[] {
  return [...[...library.broken.values()].flat(), ...library.stray, ...lintPersonas(library)];
}
