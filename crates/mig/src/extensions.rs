//! Every legal layout that adds slices to another one: the one place that
//! lists every legal layout.

use std::ops::ControlFlow;

use crate::geometry::Geometry;
use crate::index::PlacementIndex;
use crate::layout::Layout;

impl Geometry {
    /// Calls back with `base` and with every legal layout that adds some of
    /// the placements `open` to it, each once, until it is told to stop.
    ///
    /// `base` is legal, and none of `open` conflicts with it. Every subset of a
    /// legal layout is legal, so each is reached by adding placements in
    /// ascending order; a layout comes before those that add to it.
    pub fn for_each_extension<B>(
        &self,
        base: Layout,
        open: Layout,
        visit: &mut dyn FnMut(Layout) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let compute = u32::from(self.compute()).saturating_sub(self.compute_of(base));
        extend(self, base, open, compute, visit)
    }
}

fn extend<B>(
    geometry: &Geometry,
    base: Layout,
    open: Layout,
    compute: u32,
    visit: &mut dyn FnMut(Layout) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(base)?;
    let mut rest = open;
    for placement in open.iter() {
        rest = rest.without(placement);
        let takes = compute_of(geometry, placement);
        if takes <= compute {
            let open = rest.difference(geometry.conflicts(placement));
            extend(geometry, base.with(placement), open, compute - takes, visit)?;
        }
    }
    ControlFlow::Continue(())
}

fn compute_of(geometry: &Geometry, placement: PlacementIndex) -> u32 {
    u32::from(geometry.profile(geometry.profile_of(placement)).compute)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn what_extends_a_layout_is_every_legal_layout_that_contains_it() {
        let catalog = Catalog::builtin();
        let model = catalog.models().first().expect("the catalogue has models");
        let geometry = &model.geometry;
        let mut all = Vec::new();
        let every = geometry.placements().collect();
        let ControlFlow::Continue(()) =
            geometry.for_each_extension::<Infallible>(Layout::EMPTY, every, &mut |layout| {
                all.push(layout);
                ControlFlow::Continue(())
            });
        for base in &all {
            let mut extended = Vec::new();
            let ControlFlow::Continue(()) =
                geometry.for_each_extension::<Infallible>(*base, geometry.free(*base), &mut |layout| {
                    extended.push(layout);
                    ControlFlow::Continue(())
                });
            assert_eq!(extended.first(), Some(base));
            extended.sort_unstable();
            let mut supersets: Vec<Layout> =
                all.iter().copied().filter(|layout| base.is_subset_of(*layout)).collect();
            supersets.sort_unstable();
            assert_eq!(extended, supersets, "{base:?}");
        }
    }
}
