//! What a search goes on from, the least price first.

/// Items by price, a small number.
pub(super) struct Levels<T> {
    by_price: Vec<Vec<T>>,
    /// The least price that may have items.
    least: usize,
}

impl<T> Levels<T> {
    pub(super) fn new() -> Self {
        Self { by_price: Vec::new(), least: 0 }
    }

    /// - `price`: at least that of what was taken last.
    pub(super) fn push(&mut self, price: usize, item: T) {
        self.by_price.resize_with(self.by_price.len().max(price + 1), Vec::new);
        self.by_price[price].push(item);
    }

    /// Takes an item of the least price, the last one added; with its price.
    pub(super) fn pop(&mut self) -> Option<(usize, T)> {
        let item = self.cheapest()?.pop()?;
        Some((self.least, item))
    }

    /// Takes all items of the least price, in the order in which they were added; with their price.
    pub(super) fn pop_level(&mut self) -> Option<(usize, Vec<T>)> {
        let items = std::mem::take(self.cheapest()?);
        Some((self.least, items))
    }

    fn cheapest(&mut self) -> Option<&mut Vec<T>> {
        self.least += self.by_price.get(self.least..)?.iter().position(|items| !items.is_empty())?;
        self.by_price.get_mut(self.least)
    }
}
