// Lists the file tools. They use the box's file service, which resolves every path inside the box.
import { WORKSPACE } from './box.ts';
import { deleteFile, deleteTree } from './files/delete.ts';
import { listFiles, readFile, searchFiles } from './files/read.ts';
import { editFile, writeFile } from './files/write.ts';
import type { Tool } from './tool.ts';

export function fileTools(workspace: string = WORKSPACE): Tool[] {
  return [
    readFile(workspace),
    writeFile(workspace),
    editFile(workspace),
    listFiles(workspace),
    searchFiles(workspace),
    deleteFile(workspace),
    deleteTree(workspace),
  ];
}
