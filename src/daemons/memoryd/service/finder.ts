// Finds memories for a caller. One that the caller may not read is reported like one that does not
// exist, and no link leads to it.
import type { Database } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { MemoryVersion, MemoryView } from '../../../wire/memoryd/records.ts';
import { toMemoryView, toVersionView } from '../rules/view.ts';
import {
  findMemory,
  findParts,
  listIds,
  listLinks,
  listScopes,
  listVersions,
  type MemoryParts,
} from '../store/read.ts';
import type { LinkRow, MemoryRow } from '../store/schema.ts';
import type { Actor, Rights } from './rights.ts';
import type { Texts } from './texts.ts';

export type MemoryPage = {
  scopes: readonly string[] | undefined;
  before: string | undefined;
  limit: number;
};

export type Finder = {
  findReadable(actor: Actor, id: string): Promise<MemoryRow>;
  /** Who wrote the newest version. */
  findAuthor(actor: Actor, id: string): Promise<{ author: string }>;
  history(actor: Actor, id: string): Promise<MemoryVersion[]>;
  /** Newest first: those after `before`, of the scopes that the caller may read. */
  list(actor: Actor, page: MemoryPage): Promise<MemoryView[]>;
  view(actor: Actor, id: string, version?: number): Promise<MemoryView>;
  /** The scopes with memories that the caller may read: of these and below, or of all. */
  listReadableScopes(actor: Actor, scopes?: readonly string[]): Promise<string[]>;
};

export function makeFinder(deps: { db: Database; rights: Rights; texts: Texts }): Finder {
  const { db, rights, texts } = deps;

  const assertReadable = async (
    actor: Actor,
    id: string,
    memory: MemoryRow | undefined,
  ): Promise<MemoryRow> => {
    if (memory === undefined || !(await rights.canRead(actor, memory.scope))) throw missing(id);
    return memory;
  };

  /** Keeps the links between memories that the caller may both read. */
  const filterLinks = async (
    actor: Actor,
    links: readonly LinkRow[],
    end: 'from_id' | 'to_id',
  ): Promise<LinkRow[]> => {
    const scopes = await db.read((sql) =>
      Promise.all(links.map(async (link) => (await findMemory(sql, link[end]))?.scope)),
    );
    const kept: LinkRow[] = [];
    for (const [i, link] of links.entries()) {
      const scope = scopes[i];
      if (scope !== undefined && (await rights.canRead(actor, scope))) kept.push(link);
    }
    return kept;
  };

  const toView = async (actor: Actor, parts: MemoryParts): Promise<MemoryView> => {
    const { memory, row } = parts;
    const text = await texts.load(row);
    const links = await filterLinks(actor, parts.links, 'to_id');
    const usedBy = await filterLinks(actor, parts.usedBy, 'from_id');
    return toMemoryView(memory, { row, text, links }, usedBy);
  };

  const listReadableScopes: Finder['listReadableScopes'] = async (actor, scopes) => {
    const found = await db.read((sql) =>
      scopes === undefined
        ? listScopes(sql)
        : Promise.all(scopes.map((scope) => listScopes(sql, scope))).then((all) => all.flat()),
    );
    const readable: string[] = [];
    for (const scope of new Set(found))
      if (await rights.canRead(actor, scope)) readable.push(scope);
    return readable;
  };

  return {
    async findReadable(actor, id) {
      return assertReadable(actor, id, await db.read((sql) => findMemory(sql, id)));
    },
    async view(actor, id, version) {
      const parts = await db.read((sql) => findParts(sql, id, version));
      await assertReadable(actor, id, parts?.memory);
      return toView(actor, parts!);
    },
    async findAuthor(actor, id) {
      const parts = await db.read((sql) => findParts(sql, id));
      await assertReadable(actor, id, parts?.memory);
      return parts!.row;
    },
    async history(actor, id) {
      const rows = await db.read((sql) => listVersions(sql, id));
      await assertReadable(actor, id, await db.read((sql) => findMemory(sql, id)));
      const versions: MemoryVersion[] = [];
      for (const row of rows) {
        const found = await db.read((sql) => listLinks(sql, id, Number(row.version)));
        const links = await filterLinks(actor, found, 'to_id');
        versions.push(toVersionView({ row, text: await texts.load(row), links }));
      }
      return versions;
    },
    async list(actor, { scopes, before, limit }) {
      const readable = await listReadableScopes(actor, scopes);
      const ids = await db.read((sql) => listIds(sql, readable, { before, limit }));
      const views: MemoryView[] = [];
      for (const id of ids) {
        const parts = await db.read((sql) => findParts(sql, id));
        views.push(await toView(actor, parts!));
      }
      return views;
    },
    listReadableScopes,
  };
}

const missing = (id: string): Fault =>
  fault('not_found', `memory ${id} not found`, { hint: 'See agentctl memory list.' });
