//! Cached blocks by the text that leads to them.
//!
//! A node is a block with its tokens; its parent is the block before it. Keys and values depend on all tokens before them,
//! so a block is found only by its whole text: tokens are compared, nothing is hashed, and no two texts are mistaken for
//! each other. Nodes with fewer tokens than a block has are ends of texts and have no children.

/// A node's place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(usize);

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    tokens: Box<[u32]>,
    block: u32,
    children: Vec<NodeId>,
}

/// The child that has the longest beginning in common with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nearest {
    pub(super) block: u32,
    pub(super) n_common: usize,
    /// Its first token that is not in common, if it has more than those.
    pub(super) next: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Option<Node>>,
    vacant: Vec<usize>,
    roots: Vec<NodeId>,
}

impl Tree {
    pub(super) fn insert(&mut self, parent: Option<NodeId>, tokens: &[u32], block: u32) -> NodeId {
        let node = Node { parent, tokens: tokens.into(), block, children: Vec::new() };
        let id = match self.vacant.pop() {
            Some(at) => {
                self.nodes[at] = Some(node);
                NodeId(at)
            }
            None => {
                self.nodes.push(Some(node));
                NodeId(self.nodes.len() - 1)
            }
        };
        self.siblings(parent).push(id);
        id
    }

    /// Removes a node without children.
    pub(super) fn remove(&mut self, id: NodeId) {
        let Some(node) = self.nodes[id.0].take() else { return };
        debug_assert!(node.children.is_empty(), "the end of a text goes before its beginning");
        self.siblings(node.parent).retain(|sibling| *sibling != id);
        self.vacant.push(id.0);
    }

    pub(super) fn block(&self, id: NodeId) -> u32 {
        self.node(id).map_or(0, |n| n.block)
    }

    pub(super) fn children(&self, parent: Option<NodeId>) -> &[NodeId] {
        match parent {
            Some(id) => self.node(id).map_or(&[], |n| &n.children),
            None => &self.roots,
        }
    }

    pub(super) fn tokens(&self, id: NodeId) -> &[u32] {
        self.node(id).map_or(&[], |n| &n.tokens)
    }

    /// The child with exactly these tokens.
    pub(super) fn find(&self, parent: Option<NodeId>, tokens: &[u32]) -> Option<NodeId> {
        self.children(parent).iter().copied().find(|child| self.tokens(*child) == tokens)
    }

    /// The child that `text` has most in common with; the latest of several.
    pub(super) fn nearest(&self, parent: Option<NodeId>, text: &[u32]) -> Option<Nearest> {
        let near = |child: &NodeId| {
            let tokens = self.tokens(*child);
            let n_common = tokens.iter().zip(text).take_while(|(a, b)| a == b).count();
            Nearest { block: self.block(*child), n_common, next: tokens.get(n_common).copied() }
        };
        self.children(parent).iter().map(near).max_by_key(|near| near.n_common)
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0).and_then(Option::as_ref)
    }

    fn siblings(&mut self, parent: Option<NodeId>) -> &mut Vec<NodeId> {
        match parent.and_then(|id| self.nodes[id.0].as_mut()) {
            Some(node) => &mut node.children,
            None => &mut self.roots,
        }
    }
}
